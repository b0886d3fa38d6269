import t from 'tap'
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { crc32, gunzipSync, gzipSync } from 'node:zlib'
import {
  annotationsOf,
  answerQuery,
  ARCHIVE_ITEMS_MAX,
  DATA_TOOLS,
  QUERY_PROCESS,
  type TaiError,
  type JsonObject,
} from '../tai.ts'
import { bench, filled, row } from './fakes/bench.ts'

t.test('every row has the words and annotations a model needs', async (t) => {
  t.strictSame(
    DATA_TOOLS.map(({ name }) => name),
    ['json_query', 'sqlite_query', 'archive_create', 'archive_extract'],
  )
  for (const { name, parameters, description } of DATA_TOOLS) {
    t.ok(description.length > 50, `${name} says what it does`)
    const rows = Object.entries(parameters['properties'] as Record<string, JsonObject>)
    for (const [key, one] of rows) t.type(one['description'], 'string', `${name}.${key}`)
  }
  const extract = row('archive_extract')
  t.match(annotationsOf(extract, { list_only: true }), { readOnly: true, securityTier: 'Low' })
  t.match(annotationsOf(extract, { list_only: false }), { destructive: true })
  t.strictSame(await extract.paths?.(filled('archive_extract', { path: 'a/b.tar.gz' })), [
    'a/b.tar.gz',
    'a/b',
  ])
  t.strictSame(await extract.paths?.({ path: 'a.zip', list_only: true }), ['a.zip'])
  t.strictSame(await row('archive_create').paths?.({ paths: ['a', 'b'], dest: 'c.zip' }), [
    'a',
    'b',
    'c.zip',
  ])
})

/** What JSON says of a result, without the remarks in brackets. */
const valueOf = (text: string): unknown => JSON.parse(text.replace(/\n\[[^\]]*\]$/, ''))

t.test('json_query reads JSON, JSONL, YAML and TOML, by name or by looking', async (t) => {
  const { call } = await bench(t, {
    'a.json': '{"people": [{"name": "Ann", "age": 40}, {"name": "Bob", "age": 20}]}',
    'one.jsonl': '{"a": 1}\n',
    'two.ndjson': '{"a": 1}\r\n\r\n{"a": 2}\r\n',
    'many.yaml': '---\na: 1\n---\na: 2\n',
    'c.toml': 'when = 2020-01-02\n[x]\nn = 9007199254740993\n',
  })
  const cases: [JsonObject, unknown][] = [
    [{ path: 'a.json', query: 'people[?age > `30`].name' }, ['Ann']],
    [
      { path: 'a.json', query: 'people[0]' },
      { name: 'Ann', age: 40 },
    ],
    [{ path: 'one.jsonl', query: '[*].a' }, [1]],
    [{ path: 'two.ndjson', query: '[*].a' }, [1, 2]],
    [{ path: 'many.yaml', query: '[].a' }, [1, 2]],
    [
      { path: 'c.toml', query: '@' },
      { when: '2020-01-02', x: { n: '9007199254740993' } },
    ],
    [
      { text: 'a: [1, 2.5]\nd: 2020-01-01', query: '@' },
      { a: [1, 2.5], d: '2020-01-01' },
    ],
    [
      { text: 'base: &b {x: 1}\nown: {<<: *b, y: 2}', query: 'own' },
      { x: 1, y: 2 },
    ],
    [{ text: '[a]\nb = 1', query: 'a.b' }, 1],
    [{ text: '{"a": 1}\n{"a": 2}', query: '[].a' }, [1, 2]],
    [{ text: '"só"', query: '@' }, 'só'],
  ]
  for (const [args, expected] of cases) {
    const { text, isError } = await call('json_query', args)
    t.notOk(isError, text)
    t.strictSame(valueOf(text), expected, JSON.stringify(args))
  }
})

t.test('json_query says what is not there and what is left out', async (t) => {
  const { call } = await bench(t)
  const text = JSON.stringify({ all: Array.from({ length: 250 }, (_, i) => i) })
  const part = await call('json_query', { text, query: 'all', limit: 3 })
  t.equal(part.text, '[0,\n1,\n2]\n[3 of 250 results shown]')
  const nothing = await call('json_query', { text, query: 'none' })
  t.equal(nothing.text, 'null')
})

t.test('json_query names a fault', async (t) => {
  const { call } = await bench(t, {
    'a.json': '{"a": 1,\n "b": }}',
    'b.yaml': 'a: 1\nb: c: d',
    'c.toml': 'a = 1\nb = [1,,2]',
    'd.jsonl': '{"a": 1}\n{"a":\n',
  })
  const cases: [JsonObject, RegExp][] = [
    [{ path: 'a.json', query: '@' }, /^a\.json: Unexpected token '}'$/],
    [{ path: 'b.yaml', query: '@' }, /b\.yaml: .* at line 2, column 4/],
    [{ path: 'c.toml', query: '@' }, /c\.toml: Invalid TOML document: ./],
    [{ path: 'd.jsonl', query: '@' }, /d\.jsonl: Unexpected end of JSON input/],
    [{ text: '{}', query: 'a.b]c' }, /the query fails: .*Rbracket/],
    [{ text: '{}', query: 'a[?' }, /the query fails: /],
    [{ text: '{}', query: '' }, /the query fails: /],
    [{ text: '{}', query: 'nosuch(@)' }, /Unknown function: nosuch/],
    [{ text: '{"a": 1}', query: 'length(a)' }, /Invalid type: length/],
    [{ text: '{}', path: 'a.json', query: '@' }, /give either text as a text or a path/],
    [{ query: '@' }, /give either text as a text or a path/],
    [{ path: 'none.json', query: '@' }, /nothing at none\.json/],
    [{ path: '../outside/secret.txt', query: '@' }, /outside the workspace/],
    [{ text: '['.repeat(20_000) + ']'.repeat(20_000), query: '@' }, /too deep or large/],
    [{ text: '{}', query: 'constructor' }, /too deep or large/],
  ]
  for (const [args, expected] of cases)
    t.match(
      await call('json_query', args),
      { isError: true, text: expected },
      JSON.stringify(args).slice(0, 80),
    )
})

t.test('json_query ends what would grow without end', async (t) => {
  const { call } = await bench(t)
  for (const step of [' | [@,@][]', ' | [@,@]']) {
    const args = { text: '[1]', query: `@${step.repeat(60)}` }
    t.match(await call('json_query', args), { isError: true })
  }
  const aliases =
    'a: &a [1,1,1,1,1,1,1,1]\n' +
    'bcdefgh'.replace(
      /./g,
      (c) => `${c}: &${c} [${`*${String.fromCharCode(c.charCodeAt(0) - 1)},`.repeat(8)}]\n`,
    )
  t.match(await call('json_query', { text: aliases, query: 'h' }), { isError: true, text: /alias/ })
})

t.test('json_query keeps what JSON cannot hold as text', async (t) => {
  const { call } = await bench(t, {
    'a.json': '{"n": [9007199254740993, 1, -9007199254740993, 1.5]}',
    'b.jsonl': '{"n": 9007199254740993}',
    'c.yaml':
      'n: 9007199254740993\ns: !!set {x, y}\nb: !!binary aGVsbG8=\nf: [.nan, .inf, -.inf]\ni: 0x10',
  })
  const cases: [JsonObject, unknown][] = [
    [{ path: 'a.json' }, { n: ['9007199254740993', 1, '-9007199254740993', 1.5] }],
    [{ path: 'b.jsonl' }, [{ n: '9007199254740993' }]],
    [{ text: '[9007199254740993]' }, ['9007199254740993']],
    [
      { path: 'c.yaml' },
      {
        n: '9007199254740993',
        s: { x: null, y: null },
        b: 'aGVsbG8=',
        f: ['NaN', 'Infinity', '-Infinity'],
        i: 16,
      },
    ],
  ]
  for (const [args, expected] of cases) {
    const { text } = await call('json_query', { ...args, query: '@' })
    t.strictSame(valueOf(text), expected, text)
  }
})

t.test('json_query takes a broken JSON text for JSON', async (t) => {
  const { call } = await bench(t, { 'a.json': 'a: 1' })
  const cases: [JsonObject, string][] = [
    [
      { text: '{"a":1,}' },
      'text: Expected double-quoted property name in JSON at position 7 (line 1 column 8)',
    ],
    [
      { text: '{"a": [1,\n2' },
      "text: Expected ',' or ']' after array element in JSON at position 11 (line 2 column 2)",
    ],
    [{ path: 'a.json' }, "a.json: Unexpected token 'a'"],
  ]
  for (const [args, text] of cases)
    t.strictSame(await call('json_query', { ...args, query: '@' }), { text, isError: true })
})

t.test('a query that asks for too much ends with its process, and others go on', async (t) => {
  const { call, context } = await bench(t)
  const wide = 'pad_left(@,`500000000`)'
  const slow = call('json_query', { text: '"x"', query: `${wide}|split(@,'')` })
  const started = performance.now()
  await context.store.listRecords({ limit: 1 })
  t.ok(performance.now() - started < 1000, 'the vault answers meanwhile')
  t.match(await slow, { isError: true, text: /^text: it took too long or too much memory$/ })
  t.match(await call('json_query', { text: '"x"', query: wide }), { isError: true })
  const large = { text: '"x"', query: 'pad_left(@,`2000000`)' }
  t.match(await call('json_query', large), { text: 'text: larger than 1.0 MB: narrow the query' })
  const many = JSON.stringify(Array.from({ length: 900 }, () => 'x'.repeat(3000)))
  const part = await call('json_query', { text: many, query: '@', limit: 1000 })
  t.match(part.text, /\[349 of 900 results shown\]$/)
  const endless = row('json_query').run(
    filled('json_query', { text: '[1]', query: `@${' | [@,@][]'.repeat(40)}` }),
    context,
    AbortSignal.timeout(1500),
  )
  await t.rejects(endless, { name: 'TimeoutError' })
})

/** As the process of a query does it, without the process. */
async function ask(root: string, name: string, sql: string, more: object = {}) {
  const at = path.join(root, name)
  const text = /[ct]sv$/.test(name) ? fs.readFileSync(at, 'utf8').replace(/^\ufeff/, '') : ''
  const query = { at, text, query: sql, params: [], limit: 200, ...more }
  return answerQuery(JSON.stringify(query)).catch((error: TaiError) =>
    [error.message, error.hint ?? ''].join('\n').trimEnd(),
  )
}

function makeDb(file: string, wal = false) {
  const db = new DatabaseSync(file)
  if (wal) db.exec('PRAGMA journal_mode = WAL')
  db.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, data BLOB, x REAL);
    INSERT INTO t VALUES (1, 'Ann', x'00ff', 1.5), (9007199254740993, NULL, zeroblob(40), 9e999);
    CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words VALUES ('hello world');
    CREATE VIRTUAL TABLE boxes USING rtree(id, a, b); INSERT INTO boxes VALUES (1, 2, 3);
    CREATE VIEW names AS SELECT name FROM t WHERE name IS NOT NULL`)
  return db
}

t.test('sqlite_query gives rows as JSON, one a line', async (t) => {
  const { call, root } = await bench(t)
  makeDb(path.join(root, 'a b#?.db')).close()
  const cases: [string, JsonObject, string][] = [
    [
      'SELECT * FROM t',
      {},
      `["id","name","data","x"]\n[1,"Ann","x'00ff'",1.5]\n["9007199254740993",null,"(40 bytes)","Infinity"]\n[2 rows]`,
    ],
    [
      'SELECT typeof(?), typeof(?2), ?3, ?',
      { params: [1, 1.5, true, null] },
      '["typeof(?)","typeof(?2)","?3","?"]\n["integer","real",1,null]\n[1 row]',
    ],
    ['SELECT name FROM t WHERE name = ? ; ', { params: ['Ann'] }, '["name"]\n["Ann"]\n[1 row]'],
    ["SELECT * FROM words WHERE words MATCH 'hello'", {}, '["word"]\n["hello world"]\n[1 row]'],
    ['SELECT id FROM boxes', {}, '["id"]\n[1]\n[1 row]'],
    ['SELECT * FROM names', {}, '["name"]\n["Ann"]\n[1 row]'],
    ['SELECT 1 WHERE 0', {}, '["1"]\n[0 rows]'],
    ['PRAGMA user_version', {}, '["user_version"]\n[0]\n[1 row]'],
    ["SELECT name FROM pragma_table_info('names')", {}, '["name"]\n["name"]\n[1 row]'],
    [
      'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c',
      { limit: 2 },
      '["x"]\n[1]\n[2]\n[there is more]',
    ],
    ['SELECT hex(zeroblob(2000000)) AS h', {}, 'larger than 1.0 MB: narrow the query'],
  ]
  for (const [sql, more, expected] of cases)
    t.equal(await ask(root, 'a b#?.db', sql, more), expected, sql)
  const args = { path: 'a b#?.db', sql: 'SELECT name FROM t', limit: 1 }
  t.equal((await call('sqlite_query', args)).text, '["name"]\n["Ann"]\n[there is more]')
})

t.test('sqlite_query only reads, and only its file', async (t) => {
  const { call, root, context } = await bench(t, { 'no.db': 'plain text, '.repeat(100) })
  makeDb(path.join(root, 'a.db')).close()
  const before = fs.readFileSync(path.join(root, 'a.db'))
  const names = fs.readdirSync(root)
  const cases: [string, RegExp][] = [
    ['DELETE FROM t', /readonly database/],
    ['INSERT INTO t (name) VALUES (1) RETURNING id', /readonly database/],
    ['CREATE TEMP TABLE x (a)', /readonly database/],
    ['BEGIN IMMEDIATE', /readonly database/],
    ["ATTACH 'b.db' AS b", /attached databases/],
    ["VACUUM INTO 'b.db'", /attached databases/],
    ['PRAGMA user_version = 7', /readonly database/],
    ['PRAGMA journal_mode = WAL', /readonly database/],
    ["SELECT load_extension('x')", /not authorized/],
    ['SELECT 1; DELETE FROM t', /one statement at a time/],
    ['SELECT nope FROM t', /^no such column: nope$/],
    ['SELEC 1', /near "SELEC": syntax error/],
    ['', /no statements/],
  ]
  for (const [sql, expected] of cases) t.match(await ask(root, 'a.db', sql), expected, sql)
  t.match(await ask(root, 'a.db', 'SELECT 1', { params: [1] }), /column index out of range/)
  t.match(await call('sqlite_query', { path: 'a.db', sql: 'DELETE FROM none' }), {
    isError: true,
    text: /^a\.db: no such table: none$/,
  })
  const refused: [string, RegExp][] = [
    ['no.db', /no\.db: file is not a database/],
    ['none.db', /nothing at none\.db/],
    ['.', /is a folder, not a file/],
    [path.join(context.world.home, 'vault.db'), /outside the workspace|belongs to tai/],
  ]
  for (const [at, expected] of refused)
    t.match(await call('sqlite_query', { path: at, sql: 'SELECT 1' }), {
      isError: true,
      text: expected,
    })
  t.ok(fs.readFileSync(path.join(root, 'a.db')).equals(before))
  t.strictSame(fs.readdirSync(root), names)
})

t.test(
  'a query without end is ended with its process',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const { context, root } = await bench(t)
    makeDb(path.join(root, 'a.db')).close()
    const sql =
      'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'
    const args = filled('sqlite_query', { path: 'a.db', sql })
    const run = row('sqlite_query').run(args, context, AbortSignal.timeout(2_000))
    await t.rejects(run, { name: 'TimeoutError' })
    const commands = fs.readdirSync('/proc').map((pid) => {
      try {
        return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8') + fs.readlinkSync(`/proc/${pid}/cwd`)
      } catch {
        return ''
      }
    })
    t.strictSame(
      commands.filter((line) => line.includes(QUERY_PROCESS) && line.endsWith(root)),
      [],
    )
  },
)

t.test('sqlite_query sees a live WAL, and leaves nothing beside a WAL at rest', async (t) => {
  const { call, root } = await bench(t)
  const live = makeDb(path.join(root, 'live.db'), true)
  const count = { path: 'live.db', sql: 'SELECT count(*) AS n FROM t' }
  t.equal((await call('sqlite_query', count)).text, '["n"]\n[2]\n[1 row]')
  live.exec("INSERT INTO t (name) VALUES ('new')")
  t.equal((await call('sqlite_query', count)).text, '["n"]\n[3]\n[1 row]')
  live.close()
  t.strictSame(fs.readdirSync(root), ['live.db'])
  t.equal((await call('sqlite_query', count)).text, '["n"]\n[3]\n[1 row]')
  t.strictSame(fs.readdirSync(root), ['live.db'])
})

t.test('sqlite_query takes comments after a statement for no statement', async (t) => {
  const { root } = await bench(t)
  makeDb(path.join(root, 'a.db')).close()
  for (const rest of ['; -- c', ';\n/* c; */ ;', '-- c'])
    t.equal(await ask(root, 'a.db', `SELECT 1 AS n${rest}`), '["n"]\n[1]\n[1 row]')
  for (const rest of ['; -- c\nSELECT 2', '; /* c */ SELECT 2'])
    t.match(await ask(root, 'a.db', `SELECT 1 AS n${rest}`), /one statement at a time/)
})

t.test('sqlite_query opens CSV and TSV as a table', async (t) => {
  const { call, root } = await bench(t, {
    'my data.csv':
      '\ufeffid,name,zip,price,id,\r\n1,"a ""q"", x\ny",007,1.5,2,\r\n\r\n20,,012,,3,z\r\n3\r\n',
    'd.tsv': 'a\tb\n1\t"x"\n',
    'semi.csv': 'a;b\n1;2,5\n',
    'open.csv': 'a,b\n1,"x\n',
    'long.csv': 'a,b\n1,2\n1,2,3\n',
    'empty.csv': '',
    'big.csv': 'n\n12345678901234567890\n',
    'proto.csv': '__proto__,b\n1,2\n',
    'short.csv': 'a,constructor\n1\n',
    'zero.csv': 'v,A,b\n1.10,1,x\n1.9,2.5,y\n',
  })
  const cases: [string, string, RegExp | string][] = [
    [
      'my data.csv',
      'SELECT * FROM "my data" ORDER BY id',
      '["id","name","zip","price","id_1",""]\n[1,"a \\"q\\", x\\ny","007",1.5,2,null]\n[3,null,null,null,null,null]\n[20,null,"012",null,3,"z"]\n[3 rows]',
    ],
    ['d.tsv', 'SELECT a + 1 AS c, b FROM d', '["c","b"]\n[2,"x"]\n[1 row]'],
    ['semi.csv', 'SELECT b FROM semi', '["b"]\n["2,5"]\n[1 row]'],
    ['big.csv', 'SELECT n FROM big', '["n"]\n["12345678901234567890"]\n[1 row]'],
    ['proto.csv', 'SELECT * FROM proto', '["__proto__","b"]\n[1,2]\n[1 row]'],
    ['short.csv', 'SELECT * FROM short', '["a","constructor"]\n[1,null]\n[1 row]'],
    ['zero.csv', 'SELECT * FROM zero', '["v","A","b"]\n[1.1,1,"x"]\n[1.9,2.5,"y"]\n[2 rows]'],
    ['my data.csv', 'DELETE FROM "my data"', /readonly database/],
    ['my data.csv', 'SELECT * FROM data', /no such table: data$/],
    ['open.csv', 'SELECT 1', /^Quoted field unterminated/],
    ['long.csv', 'SELECT 1', /^Too many fields/],
    ['empty.csv', 'SELECT * FROM empty', /no such table/],
  ]
  for (const [at, sql, expected] of cases) {
    t.match(await ask(root, at, sql), expected, `${at} ${sql}`)
  }
  const args = { path: 'my data.csv', sql: 'SELECT sum(id) AS n FROM "my data"' }
  t.equal((await call('sqlite_query', args)).text, '["n"]\n[24]\n[1 row]')
})

// --- archives ---

type Item = {
  name: string
  data?: string
  mode?: number
  type?: string
  link?: string
  locked?: boolean
  size?: number
}

/** A tar of ustar headers, as they are told. */
function tarOf(items: Item[]) {
  const blocks = items.flatMap(({ name, data = '', mode = 0o644, type = '0', link = '' }) => {
    const head = Buffer.alloc(512)
    const bytes = Buffer.from(data)
    const octal = (n: number, width: number) => `${n.toString(8).padStart(width - 1, '0')}\0`
    head.write(name, 0)
    head.write(octal(mode, 8) + octal(0, 8) + octal(0, 8) + octal(bytes.length, 12), 100)
    head.write(`${octal(1_600_000_000, 12)}        ${type}`, 136)
    head.write(link, 157)
    head.write('ustar\x0000', 257)
    head.write(
      `${head
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0')}\0 `,
      148,
    )
    return [head, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(1024)])
}

/** A zip of stored items, as they are told. */
function zipOf(items: Item[]) {
  const parts: Buffer[] = []
  const central: Buffer[] = []
  let at = 0
  for (const { name, data = '', mode = 0o100644, locked = false, size } of items) {
    const [bytes, named] = [Buffer.from(data), Buffer.from(name)]
    const facts = Buffer.alloc(26)
    facts.writeUInt16LE(20, 0)
    facts.writeUInt16LE(0x800 + Number(locked), 2)
    facts.writeUInt16LE(0x5821, 8)
    facts.writeUInt32LE(crc32(bytes), 10)
    facts.writeUInt32LE(bytes.length, 14)
    facts.writeUInt32LE(size ?? bytes.length, 18)
    facts.writeUInt16LE(named.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), facts, named, bytes])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(mode * 0x10000, 6)
    rest.writeUInt32LE(at, 10)
    central.push(Buffer.from('PK\x01\x02\x14\x03'), facts, rest, named)
    parts.push(local)
    at += local.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06')
  end.writeUInt16LE(items.length, 8)
  end.writeUInt16LE(items.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...parts, directory, end])
}

/** Paths below a folder with mode, content or target. */
function treeOf(folder: string) {
  const names = fs.readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted()
  return names.map((name) => {
    const at = path.join(folder, name)
    const stats = fs.lstatSync(at)
    if (stats.isSymbolicLink()) return [name, 'link', fs.readlinkSync(at)]
    if (stats.isDirectory()) return [name, 'folder']
    return [name, stats.mode & 0o777, fs.readFileSync(at, 'utf8')]
  })
}

function fillFolder(root: string) {
  const deep = `${'long'.repeat(25)}/${'name'.repeat(25)}/${'part'.repeat(25)}`
  fs.mkdirSync(path.join(root, 'src', deep), { recursive: true })
  fs.mkdirSync(path.join(root, 'src/empty'))
  fs.writeFileSync(path.join(root, 'src/a.txt'), 'hello\n')
  fs.writeFileSync(path.join(root, 'src/none'), '')
  fs.writeFileSync(path.join(root, 'src/run.sh'), '#!/bin/sh\n')
  fs.chmodSync(path.join(root, 'src/run.sh'), 0o755)
  fs.writeFileSync(path.join(root, 'src', deep, 'ü ñ.txt'), 'deep')
  fs.symlinkSync('../a.txt', path.join(root, 'src/empty/link'))
  fs.utimesSync(path.join(root, 'src/a.txt'), 1_577_934_246, 1_577_934_246)
}

for (const ending of ['zip', 'tar', 'tar.gz', 'tgz'])
  t.test(`a folder comes back from a .${ending} as it was, and can be undone`, async (t) => {
    const { call, root, preview } = await bench(t)
    fillFolder(root)
    const dest = `out/x.${ending}`
    const made = await call('archive_create', { paths: ['src', 'src/a.txt'], dest })
    t.match(made.text, /^packed \d+ items into out\/x\./)
    const bytes = fs.readFileSync(path.join(root, dest))
    t.match(await call('archive_create', { paths: ['src'], dest }), {
      isError: true,
      text: /exists already/,
    })
    await call('archive_create', { paths: ['src'], dest, overwrite: true })
    t.ok(fs.readFileSync(path.join(root, dest)).equals(bytes), 'the same again')
    const listed = await call('archive_extract', { path: dest, list_only: true })
    t.match(listed.text, /6 B +src\/a\.txt\n[^]*\[\d+ items, 2[08] B\]$/)
    t.notOk(fs.existsSync(path.join(root, 'out/x')))
    t.match(await preview('archive_extract', { path: dest }), /created out\/x\/src\/a\.txt/)
    t.match(
      (await call('archive_extract', { path: dest })).text,
      /^unpacked \d+ items, 2[08] B, into out\/x$/,
    )
    t.strictSame(treeOf(path.join(root, 'out/x/src')), treeOf(path.join(root, 'src')))
    t.match(await call('archive_extract', { path: dest }), {
      isError: true,
      text: /exists already/,
    })
    t.match(await call('undo_edit', {}), { text: /undid 1 change/ })
    t.notOk(fs.existsSync(path.join(root, 'out/x')))
  })

const has = (...argv: string[]) => {
  try {
    return Boolean(execFileSync(argv[0] ?? '', argv.slice(1)))
  } catch {
    return false
  }
}

t.test('archives of other programs are unpacked, and theirs unpack ours', async (t) => {
  const { call, root } = await bench(t)
  fillFolder(root)
  const sh = (command: string) => execFileSync('/bin/sh', ['-ec', command], { cwd: root })
  const python = (format: string) =>
    `python3 -c "import shutil; shutil.make_archive('python', '${format}', '.', 'src')"`
  const makers: [string, boolean, string][] = [
    ['gnu.tar', has('tar', '--version'), 'tar cf gnu.tar src'],
    ['pax.tar.gz', has('tar', '--version'), 'tar --format=pax -czf pax.tar.gz src'],
    ['dot.tgz', has('tar', '--version'), 'cd src && tar czf ../dot.tgz .'],
    ['info.zip', has('zip', '-v'), 'zip -qry info.zip src'],
    ['stream.zip', has('zip', '-v'), 'zip -qry - src > stream.zip'],
    ['python.tar', has('python3', '--version'), python('tar')],
  ]
  for (const [name, isThere, command] of makers.filter(([, there]) => there)) {
    sh(command)
    const reply = await call('archive_extract', { path: name, dest: `out-${name}` })
    t.notOk(reply.isError, `${isThere} ${reply.text}`)
    const top = path.join(root, `out-${name}`, name === 'dot.tgz' ? '' : 'src')
    t.strictSame(treeOf(top), treeOf(path.join(root, 'src')), name)
  }
  await call('archive_create', { paths: ['src'], dest: 'ours.zip' })
  await call('archive_create', { paths: ['src'], dest: 'ours.tar.gz' })
  if (has('unzip', '-v')) {
    sh('unzip -q ours.zip -d unzipped')
    t.strictSame(treeOf(path.join(root, 'unzipped/src')), treeOf(path.join(root, 'src')))
  }
  if (has('tar', '--version')) {
    sh('mkdir untarred && tar xzf ours.tar.gz -C untarred')
    t.strictSame(treeOf(path.join(root, 'untarred/src')), treeOf(path.join(root, 'src')))
  }
})

t.test('names with ./ are unpacked, and those of Windows as folders', async (t) => {
  const { call, root, text } = await bench(t)
  fs.writeFileSync(path.join(root, 'h.tar'), tarOf([{ name: './d/b', data: 'A' }]))
  fs.writeFileSync(path.join(root, 'w.zip'), zipOf([{ name: 'd\\e\\f.txt', data: 'W', mode: 0 }]))
  await call('archive_extract', { path: 'h.tar' })
  t.equal(text('h/d/b'), 'A')
  await call('archive_extract', { path: 'w.zip', dest: '.' })
  t.equal(text('d/e/f.txt'), 'W')
})

const LINK = 0o120777

const good = { name: 'good.txt', data: 'good' }
const HOSTILE: [string, Buffer, RegExp][] = [
  ['dots.tar', tarOf([good, { name: '../evil', data: 'x' }]), /leads out of the archive/],
  ['deep.tar', tarOf([good, { name: 'a/../../evil', data: 'x' }]), /leads out/],
  ['abs.tar', tarOf([good, { name: '/tmp/tai-evil', data: 'x' }]), /leads out/],
  ['dots.zip', zipOf([good, { name: '../evil', data: 'x' }]), /leads out/],
  ['back.zip', zipOf([good, { name: '..\\evil', data: 'x' }]), /leads out/],
  ['drive.zip', zipOf([good, { name: 'C:\\evil', data: 'x' }]), /leads out/],
  ['nul.zip', zipOf([good, { name: 'a\0b', data: 'x' }]), /leads out/],
  ['link.tar', tarOf([good, { name: 'l', type: '2', link: '../../outside' }]), /outside leads out/],
  ['abslink.tar', tarOf([good, { name: 'l', type: '2', link: '/etc' }]), /etc leads out/],
  ['link.zip', zipOf([good, { name: 'l', data: '../..', mode: LINK }]), /leads out/],
  [
    'via.tar',
    tarOf([
      good,
      { name: 'y', type: '2', link: '.' },
      { name: 'x', type: '2', link: 'y/../outside' },
    ]),
    /outside leads out/,
  ],
  [
    'through.tar',
    tarOf([good, { name: 'l', type: '2', link: '.' }, { name: 'l/x', data: 'x' }]),
    /would be one/,
  ],
  [
    'above.tar',
    tarOf([good, { name: 'l/x', data: 'x' }, { name: 'L', type: '2', link: '.' }]),
    /would be one/,
  ],
  [
    'hard.tar',
    tarOf([good, { name: 'h', type: '1', link: '../../outside/secret.txt' }]),
    /h is a link and not unpacked/,
  ],
  ['dev.tar', tarOf([good, { name: 'd', type: '3' }]), /d is a character-device/],
  ['fifo.tar', tarOf([good, { name: 'p', type: '6' }]), /p is a fifo/],
  ['twice.tar', tarOf([good, good]), /good\.txt and .* would be one/],
  ['case.zip', zipOf([good, { name: 'GOOD.txt', data: 'x' }]), /would be one/],
  [
    'nfc.zip',
    zipOf([
      { name: 'é', data: 'x' },
      { name: 'e\u0301', data: 'y' },
    ]),
    /would be one/,
  ],
  ['under.zip', zipOf([good, { name: 'good.txt/x', data: 'x' }]), /would be one/],
  [
    'locked.zip',
    zipOf([good, { name: 'l', data: 'xxxxxxxxxxxxx', locked: true }]),
    /l: .*encrypted/,
  ],
  ['git.tar', tarOf([good, { name: '.git/hooks/pre-commit', data: 'x' }]), /git runs/],
  ['lie.zip', zipOf([good, { name: 'l', data: 'xyz', size: 10 }]), /l: Invalid uncompressed size/],
  ['bomb.zip', zipOf([good, { name: 'b', data: 'x', size: 0xf0000000 }]), /over .* 16\.0 MB/],
  [
    'bomb.tgz',
    gzipSync(tarOf([{ name: 'b', data: '\0'.repeat(40_000_000) }])),
    /larger than 16777216 bytes/,
  ],
  [
    'many.tar',
    tarOf(Array.from({ length: ARCHIVE_ITEMS_MAX + 1 }, (_, i) => ({ name: `f${i}` }))),
    /over 10000 items/,
  ],
  [
    'many.zip',
    zipOf(Array.from({ length: ARCHIVE_ITEMS_MAX + 1 }, (_, i) => ({ name: `f${i}` }))),
    /over 10000 items/,
  ],
  ['text.zip', Buffer.from('hello'), /is no \.zip, \.tar or \.tar\.gz/],
  ['nothing.tar', Buffer.alloc(0), /is no \.zip/],
]

t.test('an archive that would leave its folder, or harm it, is refused whole', async (t) => {
  const { call, root } = await bench(t, { work: {} })
  for (const [name, bytes, expected] of HOSTILE) {
    fs.writeFileSync(path.join(root, name), bytes)
    const reply = await call('archive_extract', { path: name, dest: 'work', overwrite: true })
    t.match(reply, { isError: true, text: expected }, name)
    t.strictSame(fs.readdirSync(path.join(root, 'work')), [], `${name} left nothing`)
  }
  t.strictSame(fs.readdirSync(path.join(root, '../outside')), ['secret.txt'])
  t.notOk(fs.existsSync('/tmp/tai-evil'))
})

t.test('an archive that is cut or changed is refused whole', async (t) => {
  const { call, root } = await bench(t, { src: { a: 'some text, '.repeat(300), b: 'more' } })
  for (const ending of ['zip', 'tgz']) {
    const at = path.join(root, `x.${ending}`)
    await call('archive_create', { paths: ['src'], dest: `x.${ending}` })
    const whole = fs.readFileSync(at)
    for (const part of [0.1, 0.3, 0.5, 0.7, 0.9, 0.99]) {
      fs.writeFileSync(at, whole.subarray(0, whole.length * part))
      t.match(
        await call('archive_extract', { path: `x.${ending}` }),
        { isError: true },
        `${ending} ${part}`,
      )
    }
    const place = ending === 'zip' ? whole.indexOf('src/b') - 60 : whole.length - 30
    fs.writeFileSync(at, whole.with(place, ~Number(whole[place]) & 0xff))
    t.match(
      await call('archive_extract', { path: `x.${ending}` }),
      { isError: true },
      `${ending} changed`,
    )
    t.notOk(fs.existsSync(path.join(root, 'x')))
  }
})

t.test('files that are there are replaced only where asked, and come back', async (t) => {
  const { call, root, text } = await bench(t, { out: { a: 'old', d: {} }, locked: { a: 'l' } })
  fs.chmodSync(path.join(root, 'out/a'), 0o640)
  fs.chmodSync(path.join(root, 'locked/a'), 0o444)
  fs.symlinkSync('../locked', path.join(root, 'out/way'))
  const files = {
    'x.zip': [{ name: 'a', data: 'new', mode: 0 }],
    'y.zip': [{ name: 'd', data: 'f' }],
    'z.zip': [{ name: 'way/n', data: 'n' }],
  }
  for (const [name, items] of Object.entries(files))
    fs.writeFileSync(path.join(root, name), zipOf(items))
  const refused: [string, string, boolean, RegExp][] = [
    ['x.zip', 'out', false, /out\/a exists already/],
    ['x.zip', 'locked', true, /locked\/a is read-only/],
    ['x.zip', 'out/a', true, /./],
    ['y.zip', 'out', true, /out\/d is a folder/],
    ['z.zip', 'out', true, /is a symbolic link/],
    ['x.zip', '../outside', true, /outside the workspace/],
    ['x.zip', '.tai', true, /tai obeys it/],
  ]
  for (const [from, dest, overwrite, expected] of refused)
    t.match(
      await call('archive_extract', { path: from, dest, overwrite }),
      { isError: true, text: expected },
      dest,
    )
  t.equal(text('out/a'), 'old')
  t.notOk((await call('archive_extract', { path: 'x.zip', dest: 'out', overwrite: true })).isError)
  t.equal(text('out/a'), 'new')
  t.equal(
    fs.statSync(path.join(root, 'out/a')).mode & 0o777,
    0o640,
    'a mode that is not told stays',
  )
  await call('undo_edit', {})
  t.equal(text('out/a'), 'old')
})

t.test('a link in the place of a file leaves the mode of what it leads to', async (t) => {
  const { call, root, text } = await bench(t, { v: { a: 'old', b: 'b' } })
  fs.chmodSync(path.join(root, 'v/a'), 0o644)
  fs.chmodSync(path.join(root, 'v/b'), 0o600)
  fs.writeFileSync(path.join(root, 'v.tar'), tarOf([{ name: 'a', type: '2', link: 'b' }]))
  t.notOk((await call('archive_extract', { path: 'v.tar', overwrite: true })).isError)
  t.equal(fs.readlinkSync(path.join(root, 'v/a')), 'b')
  t.equal(fs.statSync(path.join(root, 'v/b')).mode & 0o777, 0o600)
  await call('undo_edit', {})
  t.equal(text('v/a'), 'old')
})

t.test('archive_create refuses what it cannot pack', async (t) => {
  const { call, root, context } = await bench(t, { a: 'a', '.git': { HEAD: 'x' } })
  const cases: [JsonObject, RegExp][] = [
    [{ paths: ['a'], dest: 'x.rar' }, /ends in \.zip/],
    [{ paths: ['none'], dest: 'x.zip' }, /nothing at none/],
    [{ paths: ['../outside'], dest: 'x.zip' }, /outside the workspace/],
    [{ paths: [context.world.home], dest: 'x.zip' }, /outside the workspace|belongs to tai/],
    [{ paths: ['a'], dest: '../outside/x.zip' }, /outside the workspace/],
    [{ paths: ['a'], dest: '.git/x.zip' }, /git runs/],
  ]
  for (const [args, expected] of cases)
    t.match(await call('archive_create', args), { isError: true, text: expected })
  t.match(await call('archive_create', { paths: ['.'], dest: 'all.tgz' }), {
    text: /^packed 1 item into all.tgz/,
  })
  const names = gunzipSync(fs.readFileSync(path.join(root, 'all.tgz'))).toString('latin1')
  t.ok(names.includes('a') && !names.includes('all.tgz'), 'all but itself')
})

t.test('archive_create leaves out files that may hold secrets, and says how many', async (t) => {
  const { call, root } = await bench(t, {
    'app.js': 'code',
    '.env': 'KEY=hunter22',
    deep: { 'my.pem': 'hunter22', '.env.example': 'KEY=' },
    '.git': { config: 'hunter22', HEAD: 'x' },
  })
  const { text } = await call('archive_create', { paths: ['.', '.env'], dest: 'x.tar' })
  t.match(text, /^packed 3 items into x\.tar, .*; 5 left out, as they may hold secrets$/)
  const bytes = fs.readFileSync(path.join(root, 'x.tar'), 'latin1')
  t.notMatch(bytes, /hunter22/)
  t.match(bytes, /\.env\.example/)
  const modified = Number.parseInt(bytes.slice(136, 148), 8)
  t.equal(modified, Math.floor(fs.statSync(path.join(root, 'app.js')).mtimeMs / 1000))
  t.match(await call('archive_create', { paths: ['.env'], dest: 'y.zip' }), {
    isError: true,
    text: 'nothing to pack; 1 left out, as they may hold secrets',
  })
})

t.test('an archive is not replaced by one with nothing in it', async (t) => {
  const { call, root } = await bench(t, { a: 'a' })
  await call('archive_create', { paths: ['a'], dest: 'k.zip' })
  const before = fs.readFileSync(path.join(root, 'k.zip'))
  const again = { paths: ['k.zip'], dest: 'k.zip', overwrite: true }
  t.match(await call('archive_create', again), { isError: true, text: 'nothing to pack' })
  t.ok(fs.readFileSync(path.join(root, 'k.zip')).equals(before))
})

t.test('a text that speaks of sparse files is unpacked, a sparse file is not', async (t) => {
  const { call, root, text } = await bench(t)
  const words = '22 GNU.sparse.major=1\n'
  const tars = {
    'text.tar': tarOf([
      { name: 'a', data: words.repeat(99) },
      { name: 'b', data: 'b' },
    ]),
    'pax.tar': tarOf([{ name: 'p', type: 'x', data: words }, { name: 'c' }]),
    'old.tar': tarOf([{ name: 'c', type: 'S' }]),
  }
  for (const [name, bytes] of Object.entries(tars)) fs.writeFileSync(path.join(root, name), bytes)
  t.notOk((await call('archive_extract', { path: 'text.tar', dest: 'out' })).isError)
  t.equal(text('out/b'), 'b')
  for (const name of ['pax.tar', 'old.tar'])
    t.match(await call('archive_extract', { path: name }), { isError: true, text: /sparse files/ })
})

t.test('a path that is not there, or cannot be, is told in words', async (t) => {
  const { call, root } = await bench(t, { 'a.txt': 'a', d: {} })
  await call('archive_create', { paths: ['a.txt'], dest: 'a.zip' })
  t.match(await call('archive_extract', { path: 'b.zip' }), {
    isError: true,
    text: /^nothing at b\.zip\ndid you mean a\.zip\?/,
  })
  t.match(await call('archive_extract', { path: 'a.zip', dest: 'a.txt/sub' }), {
    isError: true,
    text: /a\.txt\/sub is below a file/,
  })
  if (process.platform !== 'linux') return
  fs.writeFileSync(Buffer.concat([Buffer.from(path.join(root, 'd/n')), Buffer.from([0xff])]), '')
  t.match(await call('archive_create', { paths: ['d'], dest: 'd.zip' }), {
    isError: true,
    text: 'd/n\ufffd: gone, or not named in UTF-8',
  })
})

t.test('unpacking lets others have their turn, and is undone when interrupted', async (t) => {
  const { root, context } = await bench(t, { out: { f1: 'old' } })
  const items = Array.from({ length: 1500 }, (_, i) => ({ name: `f${i}`, data: 'new' }))
  fs.writeFileSync(path.join(root, 'x.tar'), tarOf(items))
  const args = filled('archive_extract', { path: 'x.tar', dest: 'out', overwrite: true })
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  const timer = setInterval(() => fs.existsSync(path.join(root, 'out/f0')) && resolve(), 1)
  const ending = new AbortController()
  const run = row('archive_extract').run(args, context, ending.signal)
  await begun // the timer has its turn
  clearInterval(timer)
  ending.abort(new Error('enough'))
  await t.rejects(run, /enough/)
  t.strictSame(treeOf(path.join(root, 'out')), [['f1', 0o644, 'old']])
})
