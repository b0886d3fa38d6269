import t from 'tap'
import * as fs from 'node:fs'
import { execFileSync } from 'node:child_process'
import * as path from 'node:path'
import {
  FIND_TOOLS,
  Redactor,
  runBounded,
  Workspace,
  type JsonObject,
  type ToolContext,
  type ToolOutput,
} from '../tai.ts'
import { bench, filled, row, type Tree } from './fakes/bench.ts'

/** Lines of a result, without the remarks in brackets. */
const linesOf = ({ text }: ToolOutput): string[] =>
  text.split('\n').filter((line) => !line.startsWith('['))
const pathsOf = (reply: ToolOutput): string[] => linesOf(reply).toSorted()

t.test('every row has the words and annotations a model needs', async (t) => {
  t.strictSame(
    FIND_TOOLS.map(({ name }) => name),
    ['glob', 'grep'],
  )
  for (const { name, parameters, annotations } of FIND_TOOLS) {
    t.match(annotations, { readOnly: true, securityTier: 'Low' })
    const rows = Object.entries(parameters['properties'] as Record<string, JsonObject>)
    for (const [key, one] of rows) t.type(one['description'], 'string', `${name}.${key}`)
  }
})

const TREE: Tree = {
  '.gitignore': '*.log\n/dist\nnode_modules/\n!keep.log\n',
  '.ignore': 'private\n',
  '.git': { HEAD: 'ref', info: { exclude: 'local.*\n' } },
  '.github': { 'ci.yml': 'on: push\n' },
  'a.ts': 'const a = 1\n',
  'a.log': 'const a\n',
  'keep.log': 'const kept\n',
  'local.ts': 'const l\n',
  private: { 'p.ts': 'const p\n' },
  dist: { 'a.js': 'const d\n' },
  node_modules: { m: { 'i.ts': 'const m\n' } },
  src: {
    '.gitignore': 'gen/*\n!gen/kept.ts\n!b.log\n',
    'b.ts': 'const b = 2\n',
    'b.log': 'const b\n',
    'ü ñ.ts': 'const u\n',
    dist: { 'c.ts': 'const c = 3\n' },
    gen: { 'g.ts': 'const g\n', 'kept.ts': 'const k\n' },
  },
}
const SEEN = ['a.ts', 'src/b.ts', 'src/dist/c.ts', 'src/gen/kept.ts', 'src/ü ñ.ts']

t.test('glob finds by name, obeying ignore files at every level', async (t) => {
  const { call } = await bench(t, TREE)
  const cases: [string, JsonObject, string[]][] = [
    ['everywhere', { pattern: '**/*.ts' }, SEEN],
    ['the top only', { pattern: '*.ts' }, ['a.ts']],
    ['braces', { pattern: '**/*.{log,yml}' }, ['keep.log', 'src/b.log']],
    ['a dot that is named', { pattern: '.github/**' }, ['.github/ci.yml']],
    ['a dot file by its name', { pattern: '**/.gitignore' }, ['.gitignore', 'src/.gitignore']],
    ['below a folder', { pattern: '**/*.ts', path: 'src' }, SEEN.slice(1)],
    ['a pattern that begins with a folder', { pattern: 'src/dist/*.ts' }, ['src/dist/c.ts']],
    ['with ./ before it', { pattern: './src/*.ts' }, ['src/b.ts', 'src/ü ñ.ts']],
    ['an ignored folder that is named', { pattern: 'dist/*.js' }, ['dist/a.js']],
    ['an ignored path', { pattern: '**/*.ts', path: 'node_modules' }, ['node_modules/m/i.ts']],
    ['.git never', { pattern: '**/HEAD' }, []],
    ['a folder that is not there', { pattern: 'nope/**' }, []],
  ]
  for (const [what, args, expected] of cases)
    t.strictSame(pathsOf(await call('glob', args)), expected.toSorted(), what)
})

t.test('in a folder of a repository the rules above it count too', async (t) => {
  const { root } = await bench(t, {
    '.git': { info: { exclude: 'local.*\n' } },
    '.gitignore': '/pack/dist\n*.log\n/scratch\n',
    scratch: { 'a.log': 'const\n', '.gitignore': 'b.*\n', 'b.ts': 'const\n' },
    pack: {
      '.gitignore': '!keep.log\n',
      dist: { 'a.js': 'const\n' },
      'a.log': 'const\n',
      'keep.log': 'const\n',
      'local.ts': 'const\n',
      'a.ts': 'const\n',
    },
  })
  const inside = async (folder: string) => {
    const workspace = new Workspace(path.join(root, folder), path.join(root, '../home'))
    const context = { workspace, store: { redactor: new Redactor() } } as unknown as ToolContext
    const run = async (name: string, args: JsonObject) =>
      row(name).run(filled(name, args), context, AbortSignal.timeout(9_000))
    const found = pathsOf(await run('glob', { pattern: '**' }))
    const lines = linesOf(await run('grep', { pattern: 'const' }))
    t.strictSame(lines.map((line) => line.split(':', 1).join()).toSorted(), found)
    return found
  }
  t.strictSame(await inside('pack'), ['a.ts', 'keep.log'])
  t.strictSame(await inside('scratch'), ['a.log'], 'who names an ignored folder sees into it')
  fs.rmSync(path.join(root, '.git'), { recursive: true })
  fs.writeFileSync(path.join(root, '.git'), 'gitdir: elsewhere\n')
  t.strictSame(await inside('pack'), ['a.ts', 'keep.log', 'local.ts'], 'a linked worktree')
})

t.test('glob gives the newest first and says what it does not show', async (t) => {
  const { call, root } = await bench(t, { a: '', b: '', c: '', sub: { 'd.md': '' } })
  for (const [i, name] of ['b', 'c', 'a'].entries())
    fs.utimesSync(path.join(root, name), 1_000 - i, 1_000 - i)
  t.equal((await call('glob', { pattern: '?' })).text, 'b\nc\na')
  const two = await call('glob', { pattern: '?', limit: 2 })
  t.equal(two.text, 'b\nc\n[2 of 3 matching files shown]')
  t.match((await call('glob', { pattern: '*.md' })).text, /no file matches/)
  t.equal((await call('glob', { pattern: path.join(root, 'sub/*.md') })).text, 'sub/d.md')
  t.match(await call('glob', { pattern: '*', path: 'a' }), {
    isError: true,
    text: /a is a file, not a folder/,
  })
  t.match(await call('glob', { pattern: '*', path: '..' }), { isError: true, text: /outside/ })
  t.match(await call('glob', { pattern: '../*' }), { isError: true, text: /outside/ })
})

t.test('grep finds lines as people expect them', async (t) => {
  const { call } = await bench(t, TREE)
  const found = async (args: JsonObject) => {
    const lines = linesOf(await call('grep', args))
    return lines.map((line) => line.split(':', 2).join(':')).toSorted()
  }
  const all = [...SEEN, 'keep.log', 'src/b.log'].map((name) => `${name}:1`).toSorted()
  const cases: [string, JsonObject, string[]][] = [
    ['everywhere', { pattern: 'const' }, all],
    ['a name anywhere', { pattern: 'const', glob: '*.log' }, ['keep.log:1', 'src/b.log:1']],
    ['a path', { pattern: 'const', glob: 'src/dist/**' }, ['src/dist/c.ts:1']],
    ['one file', { pattern: 'const', path: 'a.log' }, ['a.log:1']],
    ['one ignored folder', { pattern: 'const', path: 'dist' }, ['dist/a.js:1']],
    ['the end of a line', { pattern: '= \\d$', path: 'src' }, ['src/b.ts:1', 'src/dist/c.ts:1']],
    ['a dot file', { pattern: '^on:' }, ['.github/ci.yml:1']],
    ['case', { pattern: 'CONST A', ignore_case: true }, ['a.ts:1']],
    ['syntax that only the older mode takes', { pattern: 'const\\ a\\-?' }, ['a.ts:1']],
    ['a class of Unicode', { pattern: '\\p{Ll} = 1' }, ['a.ts:1']],
    ['none', { pattern: 'nothing here' }, []],
  ]
  for (const [what, args, expected] of cases) t.strictSame(await found(args), expected, what)
})

t.test('grep prints path:line:text, context, and groups', async (t) => {
  const lines = Array.from({ length: 30 }, (_, i) => (i % 10 === 4 ? `hit ${i}` : `line ${i}`))
  const { call } = await bench(t, { 'f.txt': `${lines.join('\r\n')}\r\n`, g: 'hit' })
  t.equal(
    (await call('grep', { pattern: 'hit' })).text,
    'f.txt:5:hit 4\nf.txt:15:hit 14\nf.txt:25:hit 24\ng:1:hit',
  )
  t.equal(
    (await call('grep', { pattern: 'hit 1?4', context: 1 })).text,
    'f.txt-4-line 3\nf.txt:5:hit 4\nf.txt-6-line 5\n--\nf.txt-14-line 13\nf.txt:15:hit 14\nf.txt-16-line 15',
  )
  t.equal(
    (await call('grep', { pattern: 'hit 4|line 5|line 7', context: 1 })).text,
    ['-4-line 3', ':5:hit 4', ':6:line 5', '-7-line 6', ':8:line 7', '-9-line 8']
      .map((end) => `f.txt${end}`)
      .join('\n'),
  )
  const cut = await call('grep', { pattern: 'hit', limit: 2 })
  t.equal(cut.text, 'f.txt:5:hit 4\nf.txt:15:hit 14\n[2 of 4 matching lines shown]')
})

t.test('grep counts what it passes over, and shortens long lines around the match', async (t) => {
  const { call, root } = await bench(t, {
    long: `${'x'.repeat(5_000)}needle${'y'.repeat(5_000)}\n`,
  })
  fs.writeFileSync(path.join(root, 'bin'), Buffer.from('needle\0'))
  fs.writeFileSync(path.join(root, 'big'), `needle\n${'z'.repeat(2 * 1024 * 1024)}`)
  fs.writeFileSync(path.join(root, 'latin'), Buffer.from('needle \xe9\n', 'latin1'))
  fs.writeFileSync(Buffer.concat([Buffer.from(`${root}/bad-`), Buffer.from([0xff])]), 'needle')
  fs.symlinkSync('.', path.join(root, 'loop'))
  const { text } = await call('grep', { pattern: 'needle' })
  t.match(text, /^latin:1:needle \ufffd$/m)
  t.match(text, /^long:1:…x+needley+… \(\d+ more characters\)$/m)
  t.match(text, /\[3 unreadable, binary or large ones passed over\]$/m)
  t.notMatch(text, /loop/)
  const started = performance.now()
  fs.writeFileSync(path.join(root, 'min.js'), `${'ab'.repeat(500_000)}needle`)
  t.match(
    (await call('grep', { pattern: '.*needle.*', path: 'min.js' })).text,
    /min\.js:1:.*needle$/,
  )
  t.ok(performance.now() - started < 4_000)
})

t.test('a bad or a runaway pattern is a clear error, never a hang', async (t) => {
  const { call } = await bench(t, { f: `${'a'.repeat(40)}!\n`, long: `${'x'.repeat(60_000)}\n` })
  for (const pattern of ['(', '[z-a]', '*a'])
    t.match(await call('grep', { pattern }), {
      isError: true,
      text: /Invalid regular expression/,
    })
  const started = performance.now()
  t.match(await call('grep', { pattern: '^(a+)+$' }), {
    isError: true,
    text: /takes too long \(stopped in f\)/,
  })
  const hard = /(x+x+)+y/
  t.equal(
    runBounded(() => hard.test('x'.repeat(60_000))),
    undefined,
  )
  t.ok(performance.now() - started < 10_000)
  t.equal(
    runBounded(() => 1),
    1,
  )
  t.throws(
    () =>
      runBounded(() => {
        throw new RangeError('mine')
      }),
    { message: 'mine' },
  )
})

t.test('a glob that backtracks is a clear error, never a hang', async (t) => {
  const { call } = await bench(t, { ['a'.repeat(250)]: 'x\n' })
  const glob = `${'*a'.repeat(12)}b`
  const started = performance.now()
  for (const [name, args] of [
    ['glob', { pattern: glob }],
    ['grep', { pattern: 'x', glob }],
  ] as const)
    t.match(await call(name, args), { isError: true, text: /the glob takes too long/ })
  const nested = `${'+('.repeat(9_000)}${')'.repeat(9_000)}`
  t.match(await call('glob', { pattern: nested }), { isError: true, text: /takes too long/ })
  t.ok(performance.now() - started < 10_000)
})

t.test('ignore rules come from small regular files only', async (t) => {
  const { call, root } = await bench(t, { 'a.ts': '', link: {}, fifo: {}, big: {} })
  const at = (...names: string[]) => path.join(root, ...names)
  for (const folder of ['link', 'fifo', 'big']) fs.writeFileSync(at(folder, 'b.ts'), '')
  fs.writeFileSync(at('rules'), '*\n')
  fs.symlinkSync('../rules', at('link', '.gitignore'))
  fs.writeFileSync(at('big', '.gitignore'), '*\n'.repeat(600_000))
  if (process.platform !== 'win32') execFileSync('mkfifo', [at('fifo', '.gitignore')])
  const found = pathsOf(await call('glob', { pattern: '**/*.ts' }))
  t.strictSame(found, ['a.ts', 'big/b.ts', 'fifo/b.ts', 'link/b.ts'])
})

t.test('a folder that cannot be listed is counted, and the search goes on', async (t) => {
  const { call, root } = await bench(t, { 'a.ts': 'x\n' })
  const back = process.cwd()
  const name = 'n'.repeat(250)
  process.chdir(root) // a path longer than the system takes is made a step at a time
  for (let i = 0; i < 18; i++) {
    fs.mkdirSync(name)
    process.chdir(name)
  }
  process.chdir(back)
  const { text } = await call('glob', { pattern: '**/*.ts' })
  t.match(text, /^a\.ts\n\[n+\/ could not be read\]$/)
  fs.rmSync(path.join(root, name), { recursive: true, force: true })
})

t.test('no line of a private key is found alone', async (t) => {
  const key = '-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----\nafter\n'
  const { call } = await bench(t, { key })
  t.match(await call('grep', { pattern: 'MII' }), { text: /no line matches/ })
  t.equal((await call('grep', { pattern: 'after' })).text, 'key:2:after')
})

t.test('1,000 files are found and searched in bounded time', async (t) => {
  const { call, root } = await bench(t, { '.gitignore': '*.tmp\n', d: {} })
  const first = path.join(root, 'd', 'f0.txt')
  fs.writeFileSync(first, 'one\nline 2\n')
  for (let i = 1; i < 1_000; i++) fs.linkSync(first, path.join(root, 'd', `f${i}.txt`))
  const started = performance.now()
  t.match((await call('glob', { pattern: '**/*.txt', limit: 5 })).text, /5 of 1000 matching files/)
  t.match(
    (await call('grep', { pattern: '^line \\d*$', limit: 5 })).text,
    /5 of 1000 matching lines/,
  )
  t.ok(performance.now() - started < 10_000)
  const gone = AbortSignal.abort(new Error('left'))
  const workspace = new Workspace(root, path.join(root, '../home'))
  const context = { workspace, store: { redactor: new Redactor() } } as unknown as ToolContext
  await t.rejects(row('grep').run(filled('grep', { pattern: 'x' }), context, gone), {
    message: 'left',
  })
})
