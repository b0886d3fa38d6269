import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, statSync, utimesSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { binary } from './fakes/binary.ts'

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
