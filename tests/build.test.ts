import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync, utimesSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { binary } from './fakes/binary.ts'
import { ended, folder } from './fakes/tai.ts'

const run = promisify(execFile)
const root = fileURLToPath(new URL('..', import.meta.url))
const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string }
const { adhocSign, unsignPe, stripElf } = await import(
  String(new URL('../build.mjs', import.meta.url))
)

t.test('the binary stands alone', async (t) => {
  const tai = await binary()
  const { stdout, stderr } = await run(tai, ['--version'], { cwd: t.testdir(), env: {} })
  t.match(stdout, new RegExp(`\\b${version.replaceAll('.', '\\.')}\\b`))
  t.equal(stderr, '')
  t.ok(statSync(tai).size <= 125e6, `${statSync(tai).size / 1e6} MB is at most 125`)
})

t.test('what is fresh is not built again, what is older than its sources is', async (t) => {
  const tai = await binary()
  const fresh = () => run(process.execPath, ['build.mjs', '--fresh'], { cwd: root })
  const { ino } = statSync(tai)
  await fresh()
  t.equal(statSync(tai).ino, ino, 'left as it was')
  utimesSync(tai, 0, 0)
  await Promise.all([fresh(), fresh()])
  t.ok(statSync(tai).mtimeMs >= statSync(`${root}tai.ts`).mtimeMs)
})

t.test('a target or option that is not there is refused by name', async (t) => {
  const refused = (...args: string[]) =>
    run(process.execPath, ['build.mjs', ...args], { cwd: root })
  await t.rejects(refused('--target', 'plan9-x64'), {
    code: 1,
    stderr: /^build: no target plan9-x64; there are linux-x64, linux-arm64, darwin-x64,/,
  })
  await t.rejects(refused('--traget', 'linux-x64'), { code: 1, stderr: /'--traget'/ })
})

/** What `npm start` runs, from another folder; npm says which in INIT_CWD. `shell`: below one, as npm has it. */
async function startServing(t: Test, env: Record<string, string>, shell = false) {
  await binary() // else its making is part of what is waited for
  const home = folder()
  const said = { PATH: process.env['PATH'] ?? '', HOME: home, INIT_CWD: home, ...env }
  const direct = [process.execPath, 'build.mjs', '--start']
  const [file = '', ...args] = shell ? ['sh', '-c', `${direct.join(' ')}; exit`] : direct
  const child = spawn(file, args, { cwd: root, env: said })
  t.teardown(() => child.kill())
  return { child, home, over: ended(child) }
}

/** The configuration that is printed once the server listens. */
async function clientConfig(child: Awaited<ReturnType<typeof startServing>>['child']) {
  let text = ''
  for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
    text += String(piece)
    if (text.endsWith('\n}\n')) break
  }
  return JSON.parse(text).mcpServers.tai
}

const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
const POST = { 'content-type': 'application/json' }

t.test('npm start serves, with what clients need on stdout, until Ctrl-C', async (t) => {
  const { child, home, over } = await startServing(t, { TAI_MCP_PORT: '0' })
  const { type, url, headers } = await clientConfig(child)
  t.equal(type, 'http')
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+\/mcp$/)
  t.match(headers.Authorization, /^Bearer [\w-]{32}$/, 'a key of 24 bytes')
  const ping = (more: object) =>
    fetch(url, { method: 'POST', headers: { ...POST, ...more }, body: PING })
  t.equal((await ping({})).status, 401)
  t.strictSame(await (await ping(headers)).json(), { jsonrpc: '2.0', id: 1, result: {} })
  const shown = await run('ps', ['-eo', 'args'])
  t.match(shown.stdout, '--serve-mcp --json')
  t.notMatch(shown.stdout, headers.Authorization.slice(7), 'the key is in no command line')
  child.kill('SIGINT')
  child.kill('SIGINT') // as npm does, beside the terminal
  const { code, err } = await over
  t.equal(code, 0, 'so npm has nothing to complain of')
  t.match(err, `of ${home} over MCP`, 'the folder it was called from')
  await t.rejects(ping(headers), 'nobody listens any more')
})

t.test('npm start takes a key of your own', async (t) => {
  const key = 'a-key-of-my-own-0123'
  const { child, over } = await startServing(t, { TAI_MCP_PORT: '0', TAI_MCP_KEY: key })
  const { url, headers } = await clientConfig(child)
  t.equal(headers.Authorization, `Bearer ${key}`)
  const reply = await fetch(url, { method: 'POST', headers: { ...POST, ...headers }, body: PING })
  t.equal(reply.status, 200)
  child.kill('SIGTERM')
  t.equal((await over).code, 0)
})

t.test('npm start ends when nobody reads the key that it prints', async (t) => {
  const { child, over } = await startServing(t, { TAI_MCP_PORT: '0' })
  child.stdout.destroy()
  const { code, signal } = await over
  t.strictSame([code, signal], [0, null])
})

t.test('npm start ends when npm was ended, and its shell with it', async (t) => {
  const { child, over } = await startServing(t, { TAI_MCP_PORT: '0' }, true)
  const { url } = await clientConfig(child)
  child.kill('SIGTERM')
  await over // its output closes when the last that could write to it has gone
  await t.rejects(fetch(url), 'nobody listens any more')
})

t.test('npm start says that the port is in use, and prints no key', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const { over } = await startServing(t, { TAI_MCP_PORT: String(port) })
  const { code, out, err } = await over
  t.equal(code, 1)
  t.equal(out, '')
  t.match(err, /^tai: cannot serve: listen EADDRINUSE: .*\n {2}choose another with --mcp-port/)
})

t.test('a stripped ELF keeps what is loaded', { skip: process.platform !== 'linux' }, async (t) => {
  const whole = readFileSync(process.execPath)
  const bare: Buffer = stripElf(whole)
  t.ok(bare.length < whole.length)
  t.equal(bare.readUInt16LE(0x38), whole.readUInt16LE(0x38), 'the segments')
  t.equal(stripElf(bare).length, bare.length, 'once is enough')
})

t.test('a Windows program loses its signature and nothing else', async (t) => {
  const program = Buffer.alloc(1024, 7)
  program.writeUInt32LE(0x80, 0x3c) // where the headers begin
  program.writeUInt32LE(1000, 0x80 + 24 + 144) // the certificate table: offset, size
  program.writeUInt32LE(24, 0x80 + 24 + 148)
  const bare: Buffer = unsignPe(program)
  t.equal(bare.length, 1000)
  t.equal(bare.readBigUInt64LE(0x80 + 24 + 144), 0n)
  t.equal(unsignPe(bare), bare, 'unsigned already')
  t.throws(() => unsignPe(Buffer.concat([program, program])), /not last/)
})

t.test('a Mach-O is signed page by page', async (t) => {
  const signed: Buffer = adhocSign(machO(), 'tai')
  const command = 32 + 2 * 72 // after the two segments
  t.equal(signed.readUInt32LE(16), 3, 'one load command more')
  t.equal(signed.readUInt32LE(command), 0x1d)
  const at = signed.readUInt32LE(command + 8)
  t.equal(at + signed.readUInt32LE(command + 12), signed.length, 'the signature is last')
  t.equal(signed.readUInt32BE(at), 0xfade0cc0)
  const directory = at + signed.readUInt32BE(at + 16)
  const hashes = directory + signed.readUInt32BE(directory + 16)
  const pages = signed.readUInt32BE(directory + 28)
  t.equal(pages, 3)
  for (let i = 0; i < pages; i++) {
    const page = signed.subarray(i * 4096, Math.min((i + 1) * 4096, at))
    const hash = signed.subarray(hashes + i * 32, hashes + (i + 1) * 32)
    t.strictSame(createHash('sha256').update(page).digest(), Buffer.from(hash), `page ${i}`)
  }
  t.throws(() => adhocSign(signed, 'tai'), /signed already/)
  t.throws(() => adhocSign(Buffer.alloc(64), 'tai'), /not a thin 64-bit Mach-O/)
})

/** The least that is a Mach-O: a header, __TEXT with no section, __LINKEDIT to the end. */
function machO(): Buffer {
  const image = Buffer.alloc(9000, 5).fill(0, 0, 4096)
  image.writeUInt32LE(0xfeedfacf, 0)
  image.writeUInt32LE(0x0100000c, 4) // arm64
  image.writeUInt32LE(2, 16)
  image.writeUInt32LE(144, 20)
  const segments: [string, number, number][] = [
    ['__TEXT', 0, 4096],
    ['__LINKEDIT', 4096, 9000 - 4096],
  ]
  for (const [i, [name, off, size]] of segments.entries()) {
    const at = 32 + i * 72
    image.writeUInt32LE(0x19, at)
    image.writeUInt32LE(72, at + 4)
    image.write(name, at + 8, 'latin1')
    image.writeBigUInt64LE(BigInt(off), at + 40)
    image.writeBigUInt64LE(BigInt(size), at + 48)
  }
  return image
}
