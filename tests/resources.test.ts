// Files of the workspace as MCP resources, over the real server in this process.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { listResources, MCP_RESOURCES_PAGE, readResource, Redactor, Workspace } from '../tai.ts'
import { begin, serveHere } from './fakes/served.ts'
import { folder } from './fakes/tai.ts'

// biome-ignore format: a list
const SECRETS = [
  '.env', '.env.local', '.env~', '.envrc', 'prod.env', 'sub/id_rsa', 'id_ed25519_work', 'tls.pem', 'apple.p8',
  '.npmrc', '.git/config', '.ssh/work_key', '.aws/config', '.kube/config', '.docker/config.json', '.tai/config.toml',
]

/** A workspace with everything in it that is shown, and that is not. */
function workspace(): string {
  const dir = folder()
  const write = (name: string, text: string | Buffer) => {
    mkdirSync(join(dir, name, '..'), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  write('.gitignore', 'out/\n*.log\n')
  write('a.txt', 'known words and sk-token-123456 in them\n')
  write('sub/data.json', '{"a":1}')
  write('sub/über # 1?.md', '# hi\n')
  write('.env.example', 'KEY=\n')
  write('pixel.png', Buffer.from([0x89, 0x50, 0, 1, 2]))
  write('out/built.js', 'ignored')
  write('debug.log', 'ignored')
  for (const name of SECRETS) write(name, 'TOKEN=1\n')
  symlinkSync('.env', join(dir, 'innocent.txt'))
  symlinkSync('/etc/hostname', join(dir, 'outside.txt'))
  return dir
}

t.test('what git would show is listed, with what it takes to read it', async (t) => {
  const peer = await begin(await serveHere(t, { cwd: workspace() }))
  const { resources, nextCursor } = (await peer.ask('resources/list')).body.result
  t.strictSame(
    resources,
    [
      ['.env.example', '5 B', 'text/plain'],
      ['.gitignore', '11 B', 'text/plain'],
      ['a.txt', '40 B', 'text/plain'],
      ['pixel.png', '5 B', 'image/png'],
      ['sub/data.json', '7 B', 'application/json'],
      ['sub/über # 1?.md', '5 B', 'text/plain'],
    ].map(([name = '', description, mimeType]) => ({
      uri: `tai://workspace/${name.split('/').map(encodeURIComponent).join('/')}`,
      name,
      description,
      mimeType,
    })),
  )
  t.equal(nextCursor, undefined)
  for (const { uri } of resources) {
    const { contents } = (await peer.ask('resources/read', { uri })).body.result
    t.equal(contents.length, 1)
    t.equal(contents[0].uri, uri)
  }
  const templates = (await peer.ask('resources/templates/list')).body.result.resourceTemplates
  t.match(templates, [{ uriTemplate: 'tai://workspace/{+path}' }])
})

t.test('text comes as text, bytes as base64, under either scheme', async (t) => {
  const peer = await begin(await serveHere(t, { cwd: workspace() }))
  const read = async (uri: string) =>
    (await peer.ask('resources/read', { uri })).body.result.contents[0]
  t.strictSame(await read('teaagent://workspace/sub/data.json'), {
    uri: 'teaagent://workspace/sub/data.json',
    mimeType: 'application/json',
    text: '{"a":1}',
  })
  t.strictSame(await read('tai://workspace/pixel.png'), {
    uri: 'tai://workspace/pixel.png',
    mimeType: 'image/png',
    blob: Buffer.from([0x89, 0x50, 0, 1, 2]).toString('base64'),
  })
  t.equal((await read('tai://workspace/sub/%C3%BCber%20%23%201%3F.md')).text, '# hi\n')
})

const REFUSED = [
  ...SECRETS.map((name) => `tai://workspace/${name}`),
  'tai://workspace/out/built.js',
  'tai://workspace/debug.log',
  'tai://workspace/innocent.txt',
  'tai://workspace/outside.txt',
  'tai://workspace/missing.txt',
  'tai://workspace/sub',
  'tai://workspace/',
  'tai://workspace/..%2F..%2Fetc%2Fpasswd',
  'tai://workspace/sub/../../etc/passwd',
  'tai://workspace/%2Fetc%2Fpasswd',
  'tai://workspace/a.txt%00',
  'tai://workspace/%ff',
  'tai://elsewhere/a.txt',
  'file:///etc/passwd',
  '',
]

t.test('what is not listed is not there, whatever it is called', async (t) => {
  const peer = await begin(await serveHere(t, { cwd: workspace() }))
  for (const uri of REFUSED) {
    const { error } = (await peer.ask('resources/read', { uri })).body
    t.strictSame([error.code, error.data.uri], [-32602, uri], uri)
    t.equal(error.message, 'there is no such resource', uri)
  }
  for (const params of [{}, { uri: 7 }, { uri: null }, { uri: ['a'] }])
    t.match((await peer.ask('resources/read', params)).body.error, { code: -32602 })
})

t.test('a list that is longer than a page goes on where it stopped', async (t) => {
  const dir = folder()
  const names = Array.from({ length: 2 * MCP_RESOURCES_PAGE + 1 }, (_, i) => `f${i}`)
  for (const name of names) writeFileSync(join(dir, name), '')
  const peer = await begin(await serveHere(t, { cwd: dir }))
  const found: string[] = []
  let cursor: string | undefined
  let pages = 0
  do {
    const { result } = (await peer.ask('resources/list', cursor ? { cursor } : {})).body
    found.push(...result.resources.map(({ name }: { name: string }) => name))
    cursor = result.nextCursor
    pages += 1
  } while (cursor !== undefined)
  t.equal(pages, 3)
  t.strictSame(found, names.toSorted())
  for (const bad of ['?', 'Zg==', 7, {}])
    t.match(
      (await peer.ask('resources/list', { cursor: bad })).body.error,
      { code: -32602 },
      `${bad}`,
    )
})

t.test('known secrets leave no file', async (t) => {
  const dir = workspace()
  const redactor = new Redactor()
  redactor.add('T', 'sk-token-123456')
  writeFileSync(join(dir, 'mixed.bin'), Buffer.from('\0\u0001sk-token-123456\0', 'latin1'))
  writeFileSync(join(dir, 'n-sk-token-123456.txt'), 'x')
  const shelf = { workspace: new Workspace(dir, join(dir, 'home')), redactor }
  t.notMatch(
    JSON.stringify(await listResources(shelf, '', new AbortController().signal)),
    'sk-token-123456',
  )
  const { text } = await readResource(shelf, 'tai://workspace/a.txt')
  t.equal(text, 'known words and [redacted:T] in them\n')
  await t.rejects(readResource(shelf, 'tai://workspace/mixed.bin'), {
    message: 'it holds a secret',
  })
  const signal = AbortSignal.abort(new Error('gone'))
  await t.rejects(listResources(shelf, '', signal), { message: 'gone' })
})

t.test("tai's own home is no resource, and a large file says so", async (t) => {
  const dir = workspace()
  mkdirSync(join(dir, 'home'))
  writeFileSync(join(dir, 'home', 'vault.db'), 'x')
  writeFileSync(join(dir, 'big.txt'), Buffer.alloc(11 * 1024 * 1024, 97))
  const shelf = {
    workspace: new Workspace(dir, join(dir, 'home')),
    redactor: new Redactor(),
  }
  const { resources } = await listResources(shelf, '', AbortSignal.timeout(9_000))
  t.notMatch(JSON.stringify(resources), /vault/)
  await t.rejects(readResource(shelf, 'tai://workspace/home/vault.db'), { message: /no such/ })
  await t.rejects(readResource(shelf, 'tai://workspace/big.txt'), { message: /too large: 11/ })
})
