import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { EDIT_TOOLS, nearestPlace, type JsonObject } from '../tai.ts'
import { bench, row } from './fakes/bench.ts'

const SHA_OUTSIDE = hash('sha256', 'outside\n')

const numbered = (n: number): string =>
  Array.from({ length: n }, (_, i) => `line ${i + 1}\n`).join('')

t.test('every row has the words and annotations a model needs', async (t) => {
  t.strictSame(
    EDIT_TOOLS.map(({ name }) => name),
    ['write_file', 'edit_file', 'apply_patch', 'move_path', 'delete_path', 'undo_edit'],
  )
  for (const { name, parameters, description } of EDIT_TOOLS) {
    t.ok(description.length > 50, `${name} says what it does`)
    const rows = Object.entries(parameters['properties'] as Record<string, JsonObject>)
    for (const [key, one] of rows) t.type(one['description'], 'string', `${name}.${key}`)
  }
  t.equal(row('apply_patch').judge?.({ patch: '', dry_run: true }).securityTier, 'Low')
  t.equal(row('apply_patch').judge?.({ patch: '', dry_run: false }).securityTier, 'Medium')
})

t.test('write_file creates, replaces and says what it did', async (t) => {
  const { call, text, root } = await bench(t, { old: 'a\nb\n', 'crlf.txt': 'a\r\n', dir: {} })
  t.equal(
    (await call('write_file', { path: 'x/y/ü.txt', content: 'a\nb' })).text,
    'created x/y/ü.txt',
  )
  t.equal(text('x/y/ü.txt'), 'a\nb')
  fs.chmodSync(path.join(root, 'old'), 0o750)
  t.equal((await call('write_file', { path: 'old', content: 'a\nc\nd\n' })).text, 'changed old')
  t.equal(fs.statSync(path.join(root, 'old')).mode & 0o777, 0o750)
  t.match(await call('write_file', { path: 'dir', content: '' }), {
    isError: true,
    text: /dir is a folder/,
  })
  t.match(await call('write_file', { path: 'old/x', content: '' }), { isError: true })
  t.strictSame(
    fs.readdirSync(root).filter((name) => name.includes('.tmp')),
    [],
  )
})

t.test('a read-only file, one too large to undo and a secret mark are refused', async (t) => {
  const { call, text, root } = await bench(t, {
    locked: 'x\n',
    env: 'KEY=abc\n',
  })
  fs.chmodSync(path.join(root, 'locked'), 0o444)
  fs.writeFileSync(path.join(root, 'huge'), '')
  fs.truncateSync(path.join(root, 'huge'), 17 * 1024 * 1024)
  const mark = 'KEY=[redacted:KEY]\n'
  const cases: [string, JsonObject, RegExp][] = [
    ['write_file', { path: 'locked', content: 'y' }, /locked is read-only/],
    ['edit_file', { path: 'locked', old: 'x', new: 'y' }, /read-only/],
    ['write_file', { path: 'huge', content: 'y' }, /huge is too large to be undone/],
    ['delete_path', { path: 'huge' }, /too large to be undone/],
    ['write_file', { path: 'env', content: mark }, /holds a mark that stands for a secret/],
    ['edit_file', { path: 'env', old: 'KEY=abc', new: mark }, /stands for a secret/],
    ['edit_file', { path: 'env', old: mark, new: 'K=1' }, /stands for a secret/],
    [
      'apply_patch',
      { patch: `--- a/env\n+++ b/env\n@@ -1 +1 @@\n-KEY=abc\n+${mark}` },
      /stands for a secret/,
    ],
  ]
  for (const [name, args, expected] of cases)
    t.match(await call(name, args), { isError: true, text: expected }, `${name} ${args['path']}`)
  t.equal(text('env'), 'KEY=abc\n')
})

t.test(
  'edit_file keeps line ends, byte order mark, mode bits and the end of the file',
  async (t) => {
    const cases: [string, string, JsonObject, string][] = [
      ['one place', 'a\nb\nc\n', { old: 'b', new: 'B' }, 'a\nB\nc\n'],
      [
        'LF given, CRLF in the file',
        'a\r\nb\r\nc\r\n',
        { old: 'a\nb', new: 'x\ny\nz' },
        'x\r\ny\r\nz\r\nc\r\n',
      ],
      ['CRLF given, LF in the file', 'a\nb\n', { old: 'a\r\nb', new: 'x\r\ny' }, 'x\ny\n'],
      ['one line grows in a CRLF file', 'a\r\nb\r\n', { old: 'b', new: 'b\nc' }, 'a\r\nb\r\nc\r\n'],
      [
        'mixed: each place keeps its own',
        'a\r\nb\nc\nb\n',
        { old: 'c\nb', new: 'c\nx' },
        'a\r\nb\nc\nx\n',
      ],
      ['byte order mark', '\ufeffa\n', { old: 'a', new: 'b' }, '\ufeffb\n'],
      ['no final newline', 'a\nb', { old: 'b', new: 'c' }, 'a\nc'],
      ['every place', 'x x\nx\n', { old: 'x', new: 'yy', replace_all: true }, 'yy yy\nyy\n'],
      [
        'characters with a meaning elsewhere',
        'f($1) [a] \\d $&\n',
        { old: '($1) [a] \\d $&', new: '$& $1 $$' },
        'f$& $1 $$\n',
      ],
      ['removal', 'a\nb\nc\n', { old: 'b\n', new: '' }, 'a\nc\n'],
    ]
    const { call, text, root } = await bench(t)
    for (const [what, content, args, expected] of cases) {
      fs.writeFileSync(path.join(root, 'f'), content)
      fs.chmodSync(path.join(root, 'f'), 0o705)
      const { isError } = await call('edit_file', { path: 'f', ...args })
      t.strictSame([isError, text('f')], [undefined, expected], what)
      t.equal(fs.statSync(path.join(root, 'f')).mode & 0o777, 0o705)
    }
    fs.writeFileSync(path.join(root, 'f'), 'a\nb\nc\n')
    t.equal((await call('edit_file', { path: 'f', old: 'b', new: 'B' })).text, 'changed f')
  },
)

t.test('an edit that does not match fails and shows the nearest place', async (t) => {
  const code =
    'import x\n\nfunction one() {\n\treturn "a"\n}\n\nfunction two(left, right) {\n\treturn left + right\n}\n'
  const cases: [string, string, RegExp][] = [
    [
      'tabs',
      'function one() {\n    return "a"\n}',
      /nearest place is line 3:\nfunction one\(\) \{\n\treturn "a"\n\}/,
    ],
    ['quotes', "\treturn 'a'", /line 4:\n\treturn "a"/],
    ['typographic quotes', '\treturn “a”', /line 4:\n\treturn "a"/],
    ['white space inside', 'function  one( ) {', /line 3:/],
    ['spaces at the end', 'import x  \n\nfunction one() {', /line 1:/],
    ['case', 'Function One() {', /line 3:/],
    ['escapes', '\\treturn \\"a\\"', /nearest place is line 4/],
    ['one line of several', 'function two(left, right) {\n\treturn left - right\n}', /line 7:/],
    ['words', 'function two(left, middle, right) {', /line 7:/],
    ['nothing like it', 'zzz qqq', /no place is similar/],
  ]
  const { call, text } = await bench(t, { 'f.js': code })
  for (const [what, old, expected] of cases) {
    const reply = await call('edit_file', { path: 'f.js', old, new: 'NEW' })
    t.match(reply, { isError: true, text: expected }, what)
  }
  const more: [string, JsonObject, RegExp][] = [
    ['several', { old: 'function', new: 'x' }, /stands in f.js in 2 places\n.*replace_all/],
    ['equal', { old: 'import', new: 'import' }, /`old` is empty or the same/],
    ['empty', { old: '', new: 'x' }, /`old` is empty or/],
  ]
  for (const [what, args, expected] of more)
    t.match(
      await call('edit_file', { path: 'f.js', ...args }),
      { isError: true, text: expected },
      what,
    )
  t.match(await call('edit_file', { path: 'g.js', old: 'a', new: 'b' }), {
    text: /did you mean f.js\?/,
  })
  t.equal(text('f.js'), code)
})

t.test('nearestPlace is quick in large files, whatever is sought', async (t) => {
  const named = Array.from(
    { length: 50_000 },
    (_, i) => `const value${i} = compute(${i}, "some words")`,
  )
  const same = Array.from({ length: 20_000 }, () => 'x')
  const cases: [string, string, string, RegExp][] = [
    [
      'one line',
      named.join('\n'),
      'const valu777 = computed(777, "some word")',
      /nearest place is line/,
    ],
    ['lines all alike', same.join('\n'), [...same.slice(1), 'y'].join('\n'), /nearest place/],
    ['many blank lines', 'some\nlines', `${'\n'.repeat(200_000)}lines\n\nc`, /line 2:/],
    ['one very long line', 'ab '.repeat(2_000_000), 'zz', /no place/],
  ]
  for (const [what, text, wanted, expected] of cases) {
    const started = performance.now()
    t.match(nearestPlace(text, wanted), expected, what)
    t.ok(performance.now() - started < 4_000, what)
  }
})

const PATCH = `diff --git a/one.txt b/one.txt
--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,4 @@
 a
-b
+B
+bb
 c
--- a/old name.txt
+++ b/old name.txt
@@ -1 +1 @@
-x
+y
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-1
-2
diff --git a/deep/er/made.sh b/deep/er/made.sh
new file mode 100755
--- /dev/null
+++ b/deep/er/made.sh
@@ -0,0 +1 @@
+echo hi
\\ No newline at end of file
`

t.test('apply_patch changes, deletes and creates, all or nothing, and can be undone', async (t) => {
  const tree = { 'one.txt': 'a\nb\nc\n', 'old name.txt': 'x\n', 'gone.txt': '1\n2\n' }
  const { call, text, root, preview } = await bench(t, tree)
  const dry = await call('apply_patch', { patch: PATCH, dry_run: true })
  t.equal(
    dry.text,
    'nothing is written yet:\nchanged one.txt\nchanged old name.txt\ndeleted gone.txt\ncreated deep/er/made.sh',
  )
  t.equal(text('one.txt'), 'a\nb\nc\n')
  t.match(
    await preview('apply_patch', { patch: PATCH }),
    /--- \/dev\/null\n\+\+\+ b\/deep\/er\/made.sh/,
  )
  const done = await call('apply_patch', { patch: PATCH })
  t.equal(done.isError, undefined, done.text)
  t.equal(text('one.txt'), 'a\nB\nbb\nc\n')
  t.equal(text('old name.txt'), 'y\n')
  t.equal(text('deep/er/made.sh'), 'echo hi')
  t.equal(fs.statSync(path.join(root, 'deep/er/made.sh')).mode & 0o777, 0o755)
  t.strictSame(fs.readdirSync(root).toSorted(), ['deep', 'old name.txt', 'one.txt'])
  const undone = await call('undo_edit', {})
  t.match(undone.text, /undid 1 change\n/)
  t.strictSame(fs.readdirSync(root).toSorted(), ['deep', ...Object.keys(tree)].toSorted())
  t.equal(text('old name.txt'), 'x\n')
})

const hunk = (head: string, body: string): string => `--- a/f\n+++ b/f\n${head}\n${body}`

const FORGIVEN: [string, string, string, string][] = [
  [
    'CRLF in the file',
    'a\r\nb\r\nc\r\n',
    hunk('@@ -1,3 +1,3 @@', ' a\n-b\n+B\n c\n'),
    'a\r\nB\r\nc\r\n',
  ],
  [
    'CRLF in the patch',
    'a\nb\nc\n',
    hunk('@@ -1,3 +1,3 @@', ' a\n-b\n+B\n c\n').replaceAll('\n', '\r\n'),
    'a\nB\nc\n',
  ],
  ['a byte order mark', '\ufeffa\nb\n', hunk('@@ -1,2 +1,2 @@', '-a\n+A\n b\n'), '\ufeffA\nb\n'],
  ['wrong counts', 'a\nb\nc\n', hunk('@@ -1,9 +1,7 @@', ' a\n-b\n+B\n+bb\n c\n'), 'a\nB\nbb\nc\n'],
  [
    'wrong position',
    `${numbered(30)}a\nb\nc\n`,
    hunk('@@ -1,3 +1,3 @@', ' a\n-b\n+B\n c\n'),
    `${numbered(30)}a\nB\nc\n`,
  ],
  [
    'two wrong lines of context',
    'p\nq\nr\nb\nc\nd\ne\n',
    hunk('@@ -1,7 +1,7 @@', ' P\n q\n r\n-b\n+B\n c\n d\n E\n'),
    'p\nq\nr\nB\nc\nd\ne\n',
  ],
  [
    'a newline added at the end',
    'a\nb',
    hunk('@@ -1,2 +1,2 @@', ' a\n-b\n\\ No newline at end of file\n+b\n'),
    'a\nb\n',
  ],
  [
    'a newline taken from the end',
    'a\nb\n',
    hunk('@@ -1,2 +1,2 @@', ' a\n-b\n+b\n\\ No newline at end of file\n'),
    'a\nb',
  ],
  [
    'a blank line of context without its space',
    'a\n\nc\n',
    hunk('@@ -1,3 +1,3 @@', ' a\n\n-c\n+C\n'),
    'a\n\nC\n',
  ],
  [
    'a fence and words around it',
    'a\n',
    `Here:\n\`\`\`diff\n${hunk('@@ -1 +1 @@', '-a\n+b\n')}\`\`\`\n`,
    'b\n',
  ],
  ['no a/ b/', 'a\n', '--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n', 'b\n'],
]

t.test('apply_patch forgives what does not matter', async (t) => {
  const { call, text, root } = await bench(t)
  for (const [what, content, patch, expected] of FORGIVEN) {
    fs.writeFileSync(path.join(root, 'f'), content)
    const reply = await call('apply_patch', { patch })
    t.strictSame([reply.isError, text('f')], [undefined, expected], `${what}: ${reply.text}`)
  }
})

t.test(
  'a patch that does not fit names file, hunk and nearest place, and writes nothing',
  async (t) => {
    const { call, text, preview } = await bench(t, { f: 'one\ntwo\nthree\n', g: 'a\n' })
    const good = '--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n'
    const cases: [string, string, RegExp][] = [
      [
        'second file',
        `${good}--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-tow\n+2\n three\n`,
        /f: hunk 1 of 1 does not fit; the nearest place is line 1/,
      ],
      [
        'second hunk',
        '--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n@@ -3 +3 @@\n-four\n+4\n',
        /hunk 2 of 2/,
      ],
      [
        'twice the same file',
        '--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+c\n',
        /in the patch twice/,
      ],
      ['no file', '--- a/fff/x\n+++ b/fff/x\n@@ -1 +1 @@\n-a\n+b\n', /nothing at fff/],
      ['creates what exists', '--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+b\n', /g exists already/],
      [
        'deletes a part',
        '--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n',
        /deletes the file but not all/,
      ],
      ['no diff', 'hello', /no unified diff[^]*@@/],
      ['another format', '*** Begin Patch\n*** Update File: f\n-one\n', /no unified diff/],
      ['no file name', '@@ -1 +1 @@\n-a\n+b\n', /a hunk without file/],
      ['only the old name', '--- a/g\n@@ -1 +0,0 @@\n-a\n', /no unified diff/],
      ['only the new name', '+++ b/g\n@@ -1 +1 @@\n-a\n+b\n', /no unified diff/],
      ['a folder named a', '--- a/f\n+++ a/f\n@@ -1 +1 @@\n-one\n+b\n', /nothing at a$/m],
      [
        'a link',
        'diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n',
        /only lines of text files/,
      ],
      [
        'binary',
        'diff --git a/x.png b/x.png\nBinary files a/x.png and b/x.png differ\n',
        /only lines of text files/,
      ],
      [
        'a rename',
        'diff --git a/g b/h\nsimilarity index 100%\nrename from g\nrename to h\n',
        /only lines of text files.*\nmove_path renames/,
      ],
      ['outside', '--- /dev/null\n+++ b/../../evil\n@@ -0,0 +1 @@\n+b\n', /outside|workspace/],
      ['.git', '--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+b\n', /\.git/],
    ]
    for (const [what, patch, expected] of cases)
      t.match(await call('apply_patch', { patch }), { isError: true, text: expected }, what)
    await t.rejects(preview('apply_patch', { patch: 'hello' }), { message: /no unified diff/ })
    t.strictSame([text('f'), text('g')], ['one\ntwo\nthree\n', 'a\n'])
  },
)

t.test('previews show what would change', async (t) => {
  const { preview, root } = await bench(t, { f: 'a\n', d: { x: '1\n', y: '2\n' } })
  t.equal(
    await preview('write_file', { path: 'n', content: 'x\n' }),
    '--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+x',
  )
  t.match(await preview('edit_file', { path: 'f', old: 'a', new: 'b' }), /-a\n\+b/)
  await t.rejects(preview('edit_file', { path: 'f', old: 'zz', new: 'b' }), { message: /not in f/ })
  t.match(
    await preview('delete_path', { path: 'd', recursive: true }),
    /--- a\/d\/x\n\+\+\+ \/dev\/null[^]*--- a\/d\/y/,
  )
  const long = await preview('write_file', { path: 'n', content: numbered(5_000) })
  t.match(long, /\+line 5000$/, 'whole: the question says what it leaves out')
  fs.writeFileSync(path.join(root, 'bin'), Buffer.from([0, 1, 2]))
  t.match(await preview('delete_path', { path: 'bin' }), /\(binary, [0-9a-f]{64}\)/)
})

t.test('move_path moves, renames and copies; undo brings both sides back', async (t) => {
  const tree = { f: 'f\n', g: 'g\n', d: { x: '1', s: { y: '2' } }, e: { z: '3' } }
  const { call, text, root } = await bench(t, tree)
  const exists = (name: string) => fs.existsSync(path.join(root, name))
  t.equal((await call('move_path', { from: 'f', to: 'new/name' })).text, 'moved f to new/name')
  t.strictSame([exists('f'), text('new/name')], [false, 'f\n'])
  await call('undo_edit', {})
  t.strictSame([text('f'), exists('new/name')], ['f\n', false])
  await call('move_path', { from: 'd', to: 'd2' })
  t.strictSame([exists('d'), text('d2/s/y')], [false, '2'])
  await call('undo_edit', {})
  t.strictSame([text('d/s/y'), exists('d2')], ['2', false])
  await call('move_path', { from: 'd', to: 'c', copy: true })
  t.strictSame([text('c/s/y'), text('d/s/y')], ['2', '2'])
  await call('move_path', { from: 'f', to: 'g', overwrite: true })
  t.strictSame([exists('f'), text('g')], [false, 'f\n'])
  await call('undo_edit', { steps: 2 })
  t.strictSame(
    [text('f'), text('g'), text('e/z'), text('d/x'), exists('c')],
    ['f\n', 'g\n', '3', '1', false],
  )
  fs.linkSync(path.join(root, 'f'), path.join(root, 'twin'))
  const refused: [JsonObject, RegExp][] = [
    [{ from: 'f', to: 'twin' }, /twin exists already/],
    [{ from: 'f', to: 'g' }, /g exists already\n`to` is the final path; overwrite replaces a file/],
    [{ from: 'f', to: 'd' }, /d is a folder/],
    [{ from: 'f', to: 'd', overwrite: true }, /d is a folder/],
    [{ from: 'd', to: 'd/s/d' }, /one holds the other/],
    [{ from: 'd/s', to: 'd', overwrite: true }, /d is a folder/],
    [{ from: 'd/x', to: 'd' }, /d is a folder/],
    [{ from: 'f', to: 'f' }, /are one/],
    [{ from: '.', to: 'x' }, /./],
    [{ from: 'nope', to: 'x' }, /nothing at nope/],
  ]
  for (const [args, expected] of refused)
    t.match(await call('move_path', args), { isError: true, text: expected }, JSON.stringify(args))
})

t.test(
  'delete_path keeps all of it, links and modes too, and refuses what must stay',
  async (t) => {
    const { call, text, root } = await bench(t, {
      d: { 'x.sh': '1', sub: { empty: {} }, l: t.fixture('symlink', 'x.sh') },
      repo: { '.git': { HEAD: 'ref' } },
      '.git': { HEAD: 'ref' },
    })
    fs.chmodSync(path.join(root, 'd/x.sh'), 0o755)
    t.match(await call('delete_path', { path: 'd' }), {
      isError: true,
      text: /recursive is needed to delete d \(5 items\)/,
    })
    t.match(
      (await call('delete_path', { path: 'd', recursive: true })).text,
      /deleted d \(5 items\)/,
    )
    t.equal(fs.existsSync(path.join(root, 'd')), false)
    const back = await call('undo_edit', { path: 'd' })
    t.match(back.text, /undid 1 change\n[^]*created d\/x\.sh/)
    t.strictSame(
      [text('d/x.sh'), fs.statSync(path.join(root, 'd/x.sh')).mode & 0o777],
      ['1', 0o755],
    )
    t.equal(fs.readlinkSync(path.join(root, 'd/l')), 'x.sh')
    t.ok(fs.statSync(path.join(root, 'd/sub/empty')).isDirectory())
    for (const [given, expected] of [
      ['.', /./],
      ['.git', /\.git/],
      ['.git/HEAD', /\.git/],
      ['repo', /repo\/\.git is read only/],
      ['nope', /nothing at nope/],
    ] as const)
      t.match(
        await call('delete_path', { path: given, recursive: true }),
        { isError: true, text: expected },
        given,
      )
  },
)

t.test(
  'undo_edit goes back step by step, by path, and never over the work of others',
  async (t) => {
    const { call, text, root } = await bench(t, { a: '0\n', b: '0\n' })
    const exists = (name: string) => fs.existsSync(path.join(root, name))
    for (const n of ['1', '2', '3']) await call('write_file', { path: 'a', content: `${n}\n` })
    await call('write_file', { path: 'b', content: '1\n' })
    await call('write_file', { path: 'n/e/w', content: 'new\n' })
    t.equal((await call('undo_edit', { path: 'a' })).text, 'undid 1 change\nchanged a')
    t.equal(text('a'), '2\n')
    t.match((await call('undo_edit', {})).text, /deleted n\/e\/w/)
    t.equal(exists('n/e/w'), false)
    t.match((await call('undo_edit', { steps: 9 })).text, /undid 3 changes/)
    t.strictSame([text('a'), text('b')], ['0\n', '0\n'])
    t.match(await call('undo_edit', {}), {
      isError: true,
      text: /no change of a file tool to undo in this session/,
    })

    await call('write_file', { path: 'a', content: 'mine\n' })
    await call('write_file', { path: 'b', content: 'mine\n' })
    fs.writeFileSync(path.join(root, 'a'), 'theirs\n')
    t.match(await call('undo_edit', { steps: 2 }), {
      isError: true,
      text: /changed since by something else: a\nnothing was undone/,
    })
    t.strictSame([text('a'), text('b')], ['theirs\n', 'mine\n'])
    await call('undo_edit', {})
    t.equal(text('b'), '0\n')

    await call('write_file', { path: 'm/x', content: 'x' })
    fs.writeFileSync(path.join(root, 'm/other'), 'kept')
    await call('undo_edit', {})
    t.strictSame([exists('m/x'), text('m/other')], [false, 'kept'])
  },
)

t.test('a call that fails half-way takes back what it did', async (t) => {
  const { call, root, text, context } = await bench(t, { a: 'a\n', 'b.txt': 'b\n' })
  // The second file's folder turns into a file between check and write.
  const patch =
    '--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+x\n'
  const push = context.store.pushUndo.bind(context.store)
  context.store.pushUndo = async (...args) => {
    await push(...args)
    fs.writeFileSync(path.join(root, 'd'), 'in the way')
  }
  const reply = await call('apply_patch', { patch })
  t.equal(reply.isError, true, reply.text)
  t.equal(text('a'), 'a\n')
  t.match(await call('undo_edit', {}), { text: /no change of a file tool to undo/ })
})

t.test('what cannot be recorded on a full disk is not done', async (t) => {
  const { call, text, context } = await bench(t, { a: '0\n' })
  await call('write_file', { path: 'a', content: '1\n' })
  const fillUp = (what: string) =>
    context.store.db.exec(`CREATE TRIGGER full BEFORE ${what} ON undo BEGIN
      SELECT RAISE (ABORT, 'disk full'); END`)
  fillUp('DELETE')
  await t.rejects(call('undo_edit', {}), { message: /disk full/ })
  t.equal(text('a'), '1\n', 'the undoing is taken back')
  context.store.db.exec('DROP TRIGGER full')
  fillUp('INSERT')
  for (const [name, args] of [
    ['write_file', { content: '2\n' }],
    ['delete_path', {}],
  ] as const)
    await t.rejects(call(name, { path: 'a', ...args }), { message: /disk full/ })
  t.equal(text('a'), '1\n')
  context.store.db.exec('DROP TRIGGER full')
  t.equal((await call('undo_edit', {})).text, 'undid 1 change\nchanged a')
  t.equal(text('a'), '0\n')
})

t.test('a failed change whose record stays on a full disk says why it failed', async (t) => {
  const { call, root, context } = await bench(t, {})
  const push = context.store.pushUndo.bind(context.store)
  context.store.pushUndo = async (...args) => {
    await push(...args)
    fs.writeFileSync(path.join(root, 'd'), 'in the way')
    context.store.db.exec(`CREATE TRIGGER full BEFORE DELETE ON undo BEGIN
      SELECT RAISE (ABORT, 'disk full'); END`)
  }
  t.match(await call('write_file', { path: 'd/x', content: '' }), {
    isError: true,
    text: /is below a file|EEXIST/,
  })
})

t.test('nothing is made where the workspace was', async (t) => {
  const { call, root } = await bench(t, { a: 'a\n' })
  fs.renameSync(root, `${root}-moved`)
  const calls: [string, JsonObject][] = [
    ['write_file', { path: 'b', content: '' }],
    ['write_file', { path: 'c/d', content: '' }],
    ['edit_file', { path: 'a', old: 'a', new: 'b' }],
    ['delete_path', { path: 'a' }],
    ['read_file', { path: 'a' }],
    ['list_dir', {}],
  ]
  for (const [name, args] of calls)
    t.match(await call(name, args), { isError: true, text: /in a workspace that is gone/ }, name)
  t.notOk(fs.existsSync(root))
})

/** Until killed, `work/d` is by turns a folder and a link to `outside`. */
async function flipper(t: Test, root: string) {
  // Where a tool has made the folder anew meanwhile, that one goes.
  const code = `const fs = require('fs')
    const attempt = (work) => { try { work(); return true } catch {} }
    const clear = () => attempt(() => fs.rmSync('d', { recursive: true, force: true }))
    console.log('go')
    for (;;) {
      attempt(() => fs.renameSync('d', 'e'))
      attempt(() => fs.symlinkSync('../outside', 'd'))
      do clear()
      while (!attempt(() => fs.renameSync('e', 'd')))
    }`
  const child = spawn(process.execPath, ['-e', code], { cwd: root })
  const ended = once(child, 'exit')
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
  }
  t.teardown(stop)
  await once(child.stdout, 'data')
  return stop
}

t.test('a folder that turns into a link leads no tool outside', async (t) => {
  const own = 'inside\n'
  const { call, root } = await bench(t, { d: { 'secret.txt': own, 'here.txt': own } })
  const outside = path.join(root, '../outside')
  const stop = await flipper(t, root)
  const said: Record<string, number> = {}
  const started = performance.now()
  const isRefused = (text: string) => /moved|outside the/.test(text)
  const calls: [string, JsonObject][] = [
    ['read_file', { path: 'd/secret.txt' }],
    ['grep', { pattern: 'side', path: 'd/secret.txt' }],
    ['file_info', { path: 'd/secret.txt', hash: true }],
    ['edit_file', { path: 'd/secret.txt', old: 'nope', new: '' }],
    ['write_file', { path: 'd/secret.txt', content: own }],
    ['write_file', { path: 'd/new/deep.txt', content: own }],
    ['delete_path', { path: 'd/secret.txt' }],
    ['write_file', { path: 'd/secret.txt', content: own }],
  ]
  const isLeft = () =>
    performance.now() - started < (Object.keys(said).some(isRefused) ? 4_000 : 12_000)
  while (isLeft())
    for (const [name, args] of calls) {
      const { text } = await call(name, args)
      if (/^(.*:)?outside/m.test(text) || text.includes(SHA_OUTSIDE)) t.fail(`${name}: ${text}`)
      const seen = text.replace(/'.*/s, '').slice(0, 40)
      said[seen] = (said[seen] ?? 0) + 1
    }
  await stop()
  t.ok(
    Object.keys(said).some((text) => /moved|outside the/.test(text)),
    JSON.stringify(said),
  )
  t.strictSame(fs.readdirSync(outside), ['secret.txt'])
  t.equal(fs.readFileSync(path.join(outside, 'secret.txt'), 'utf8'), 'outside\n')
})
