import t from 'tap'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { FILE_TOOLS, unifiedDiff, type JsonObject } from '../tai.ts'
import { bench } from './fakes/bench.ts'

const numbered = (n: number): string =>
  Array.from({ length: n }, (_, i) => `line ${i + 1}\n`).join('')

t.test('every row has the words and annotations a model needs', async (t) => {
  t.strictSame(
    FILE_TOOLS.map(({ name }) => name),
    ['read_file', 'list_dir', 'file_info'],
  )
  for (const { name, parameters, description } of FILE_TOOLS) {
    t.ok(description.length > 60, `${name} says what comes back`)
    const rows = Object.entries(parameters['properties'] as Record<string, JsonObject>)
    for (const [key, row] of rows) t.type(row['description'], 'string', `${name}.${key}`)
  }
})

t.test(
  'read_file gives the content as it is, and a head only when something must be said',
  async (t) => {
    const cases: [string, string | Buffer, JsonObject, string][] = [
      ['a small file', 'a\n  b\n', {}, 'a\n  b\n'],
      ['no newline at the end', 'a\nb', {}, 'a\nb'],
      ['an empty file', '', {}, '[the file is empty]'],
      ['a byte order mark is not shown', '\ufeffa\n', {}, 'a\n'],
      ['CRLF is said', 'a\r\nb\r\n', {}, '[CRLF line ends]\na\nb\n'],
      ['mixed line ends are said', 'a\r\nb\n', {}, '[CRLF line ends]\na\nb\n'],
      [
        'a range',
        numbered(9),
        { offset: 3, limit: 2 },
        '[lines 3-4 of 9; read on with offset 5]\nline 3\nline 4\n',
      ],
      ['the end', numbered(9), { offset: 9 }, '[lines 9-9 of 9]\nline 9\n'],
      ['the end without newline', 'a\nb', { offset: 2 }, '[lines 2-2 of 2]\nb'],
      [
        'a range of CRLF',
        'a\r\nb\r\n',
        { limit: 1 },
        '[lines 1-1 of 2; CRLF line ends; read on with offset 2]\na\n',
      ],
      ['unicode', 'Grüße 你好 🎈\n', {}, 'Grüße 你好 🎈\n'],
    ]
    const { call, root } = await bench(t)
    for (const [what, content, args, expected] of cases) {
      fs.writeFileSync(path.join(root, 'ö f.txt'), content)
      t.strictSame(await call('read_file', { path: 'ö f.txt', ...args }), { text: expected }, what)
    }
  },
)

t.test('no offset shows what a private key holds', async (t) => {
  const key = '-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nMIIdef\n-----END RSA PRIVATE KEY-----\n'
  const { call } = await bench(t, { key: `a\n${key}z\n` })
  for (let offset = 1; offset <= 3; offset++)
    t.notMatch((await call('read_file', { path: 'key', offset })).text, 'MII')
  t.match(await call('read_file', { path: 'key' }), { text: 'a\n[redacted:private-key]\nz\n' })
})

t.test('read_file gives long files in parts, and refuses huge ones', async (t) => {
  const { call, root } = await bench(t)
  const line = `${'x'.repeat(9)}\n`
  fs.writeFileSync(path.join(root, 'big.log'), line.repeat(12_000))
  const first = await call('read_file', { path: 'big.log' })
  t.match(first.text, /^\[lines 1-5000 of 12000; read on with offset 5001\]\nxxx/)
  const later = await call('read_file', { path: 'big.log', offset: 11_999 })
  t.equal(later.text, `[lines 11999-12000 of 12000]\n${line}${line}`)
  fs.writeFileSync(path.join(root, 'wide.log'), 'x'.repeat(11_000_000))
  t.match(await call('read_file', { path: 'wide.log' }), { isError: true, text: /too large/ })
})

t.test('read_file names what it cannot show, and what to do', async (t) => {
  const { call, root } = await bench(t, { sub: { 'index.ts': 'x' }, 'readme.md': 'x' })
  const files: [string, Buffer, RegExp][] = [
    ['utf16', Buffer.from('\ufeffhello', 'utf16le'), /utf16 is UTF-16 \(12 B\)\n.*iconv/],
    ['latin1', Buffer.from('one\ncaf\xe9\n', 'latin1'), /latin1 is not UTF-8 on line 2 \(/],
    ['cut', Buffer.from('gr\u00fc').subarray(0, 3), /cut is not UTF-8 on line 1 \(/],
    ['nul', Buffer.from('a\0b'), /nul is binary \(3 B\)/],
  ]
  for (const [name, bytes, expected] of files) {
    fs.writeFileSync(path.join(root, name), bytes)
    t.match(await call('read_file', { path: name }), { isError: true, text: expected })
  }
  const paths: [string, JsonObject, RegExp][] = [
    ['a folder', { path: 'sub' }, /sub is a folder, not a file/],
    [
      'a mistyped name',
      { path: 'sub/indx.ts' },
      /nothing at sub\/indx.ts\ndid you mean index.ts\?/,
    ],
    ['a mistyped folder', { path: 'sup/index.ts' }, /nothing at sup$/m],
    [
      'past the end',
      { path: 'readme.md', offset: 5 },
      /readme.md has 1 line; offset 5 is past them/,
    ],
    ['a file as folder', { path: 'readme.md/x' }, /./],
    ['outside', { path: '../outside/secret.txt' }, /outside|workspace/],
  ]
  for (const [what, args, expected] of paths)
    t.match(await call('read_file', args), { isError: true, text: expected }, what)
})

t.test('a link that leads out of the workspace is neither read nor written', async (t) => {
  const { call, root } = await bench(t)
  fs.symlinkSync('../outside', path.join(root, 'out'))
  fs.symlinkSync('../outside/secret.txt', path.join(root, 'leak'))
  for (const [name, args] of [
    ['read_file', { path: 'out/secret.txt' }],
    ['read_file', { path: 'leak' }],
    ['file_info', { path: 'leak' }],
    ['list_dir', { path: 'out' }],
    ['write_file', { path: 'out/new.txt', content: 'x' }],
    ['write_file', { path: 'leak', content: 'x' }],
    ['edit_file', { path: 'leak', old: 'outside', new: 'x' }],
    ['move_path', { from: 'out/secret.txt', to: 'mine', copy: true }],
    ['delete_path', { path: 'out/secret.txt' }],
    ['apply_patch', { patch: '--- a/leak\n+++ b/leak\n@@ -1 +1 @@\n-outside\n+x\n' }],
  ] as const)
    t.equal((await call(name, args)).isError, true, `${name} ${JSON.stringify(args)}`)
  t.equal(fs.readFileSync(path.join(root, '../outside/secret.txt'), 'utf8'), 'outside\n')
  t.equal(fs.existsSync(path.join(root, '../outside/new.txt')), false)
})

t.test('list_dir lists by name, to a depth, and says what it left out', async (t) => {
  const tree = {
    'b.txt': 'hello',
    a: { deep: { 'x.ts': '' } },
    node_modules: { p: { 'i.js': '' } },
    '.hidden': '',
    link: t.fixture('symlink', 'b.txt'),
    dead: t.fixture('symlink', 'nowhere'),
  }
  const { call } = await bench(t, tree)
  t.equal(
    (await call('list_dir', {})).text,
    'a/\nb.txt  5 B\ndead -> nowhere\nlink -> b.txt\nnode_modules/\n[1 hidden name left out]',
  )
  t.match(
    (await call('list_dir', { depth: 3, hidden: true })).text,
    /^\.hidden {2}0 B\na\/\n {2}deep\/\n {4}x.ts {2}0 B\nb\.txt[^]*\nnode_modules\/$/,
  )
  t.equal((await call('list_dir', { path: 'a/deep' })).text, 'x.ts  0 B')
  t.match(await call('list_dir', { path: 'b.txt' }), { isError: true, text: /not a folder/ })
  t.match(await call('list_dir', { path: 'aa' }), { isError: true, text: /did you mean a\?/ })
})

t.test('a folder of 10,000 files is listed quickly, and names of any bytes survive', async (t) => {
  const { call, root } = await bench(t)
  // Links to one file: making 10,000 files takes longer than all that is tested here.
  fs.writeFileSync(path.join(root, 'f0'), '')
  for (let i = 1; i < 10_000; i++) fs.linkSync(path.join(root, 'f0'), path.join(root, `f${i}`))
  fs.writeFileSync(Buffer.concat([Buffer.from(`${root}/bad-`), Buffer.from([0xff, 0xfe])]), '')
  const started = performance.now()
  const { text } = await call('list_dir', {})
  t.equal(text.split('\n').length, 10_001)
  t.match(text, /bad-\ufffd/)
  t.ok(performance.now() - started < 5_000)
})

t.test('file_info tells kind, size, mode, lines, link and hash', async (t) => {
  const { call, root } = await bench(t, {
    'a.ts': 'x\ny\n',
    d: {},
    l: t.fixture('symlink', 'a.ts'),
  })
  fs.chmodSync(path.join(root, 'a.ts'), 0o640)
  const info = (await call('file_info', { path: 'a.ts', hash: true })).text
  t.match(info, /kind +file\nsize +4\nmode +640\nmodified +\d{4}-\d\d-\d\dT.*Z\n/)
  t.match(info, /sha256 +[0-9a-f]{64}$/)
  t.match((await call('file_info', { path: 'd' })).text, /kind +folder/)
  t.match((await call('file_info', { path: 'l' })).text, /link +a\.ts/)
})

t.test('a difference is shown as diff -u shows it', async (t) => {
  t.equal(
    await unifiedDiff({ name: 'x', text: 'a\n' }, { name: 'y', text: 'b\n' }),
    '--- x\n+++ y\n@@ -1,1 +1,1 @@\n-a\n+b',
  )
})
