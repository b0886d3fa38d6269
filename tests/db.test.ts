import { once } from 'node:events'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import {
  Db,
  digest,
  MIGRATIONS,
  newId,
  openDb,
  STORE_GLANCE,
  VaultError,
  type SqlValue,
} from '../tai.ts'
import { LONG_WAY, makeBigVault } from './fakes/bigvault.ts'
import { makeHome, oneRow, startFake } from './fakes/vault.ts'

const STEP = 'CREATE TABLE step (x)'
const NEXT = [...MIGRATIONS, STEP]
const BACKUP = `vault.db.backup-${MIGRATIONS.length}`
const isRoot = process.getuid?.() === 0

/** How an opening fails: the kind of its VaultError, its hint, and its message. */
async function faultOf(opening: Promise<Db>): Promise<VaultError> {
  const error = await opening.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof VaultError)) throw new Error('no VaultError', { cause: error })
  return error
}

function vaultIn(home: string): string {
  fs.mkdirSync(home, { recursive: true })
  return path.join(home, 'vault.db')
}

t.test('a vault is made with its folder, both for their owner alone', async (t) => {
  const home = makeHome(t)
  const file = path.join(home, 'deep', 'vault.db')
  const db = await openDb(file)
  t.equal(oneRow<{ journal_mode: string }>(db, 'PRAGMA journal_mode').journal_mode, 'wal')
  t.equal(oneRow<{ foreign_keys: number }>(db, 'PRAGMA foreign_keys').foreign_keys, 1)
  db.insert('settings', { key: 'a', value: 'b' })
  for (const name of fs.readdirSync(path.dirname(file)))
    t.equal(fs.statSync(path.join(path.dirname(file), name)).mode & 0o777, 0o600, name)
  t.equal(fs.statSync(path.dirname(file)).mode & 0o777, 0o700)
  db.close()
  fs.chmodSync(file, 0o644)
  ;(await openDb(file)).close()
  t.equal(fs.statSync(file).mode & 0o777, 0o600, 'a vault that others could read is closed to them')
})

t.test('rows come and go', async (t) => {
  const db = await openDb(':memory:')
  t.teardown(() => db.close())
  db.insert('settings', { key: 's', value: '[]' })
  t.strictSame(db.get('SELECT key FROM settings'), { key: 's' })
  t.equal(db.get('SELECT key FROM settings WHERE key = ?', 'other'), undefined)
  const values: readonly SqlValue[] = ['text', 1.5, new Uint8Array([1, 0]), undefined]
  for (const value of values) t.strictSame(db.get('SELECT ? AS it', value), { it: value })
  t.equal(db.run('UPDATE settings SET value = ?', '[1]'), 1)
  t.strictSame(db.all('SELECT value AS j FROM settings'), [{ j: '[1]' }])
  t.strictSame(
    db.get('SELECT ? AS tags', ['a', 'b']),
    { tags: ['a', 'b'] },
    'a list is a list again',
  )
  t.strictSame(db.get("SELECT digest('a', 1) AS it"), { it: digest(['a', 1]) })
})

t.test('ids are short, lower case and hardly ever the same', async (t) => {
  const db = await openDb(':memory:')
  t.teardown(() => db.close())
  const ids = Array.from({ length: 1_000 }, () => newId(db))
  t.ok(ids.every((id) => /^[a-z2-9]{10}$/.test(id)))
  t.equal(new Set(ids).size, 1_000)
})

t.test('a transaction is all or nothing, and may hold another', async (t) => {
  const db = await openDb(':memory:')
  t.teardown(() => db.close())
  const add = (line: string) => db.insert('history', { line })
  t.throws(() =>
    db.tx(() => {
      add('one')
      db.tx(() => add('two'))
      throw new Error('changed my mind')
    }),
  )
  t.strictSame(db.all('SELECT line FROM history'), [])
  t.equal(
    db.tx(() => (add('three'), 3)),
    3,
  )
  t.strictSame(db.all('SELECT line FROM history'), [{ line: 'three' }])
})

t.test('an old vault is brought forward once, after a backup', async (t) => {
  const file = vaultIn(makeHome(t))
  const old = await openDb(file)
  old.insert('settings', { key: 'colour', value: 'blue' })
  old.close()
  const db = await openDb(file, NEXT)
  t.equal(oneRow<{ n: number }>(db, 'SELECT count(*) AS n FROM step').n, 0)
  t.strictSame(db.get('SELECT value FROM settings'), { value: 'blue' })
  db.close()
  ;(await openDb(file, NEXT)).close()
  t.strictSame(fs.readdirSync(path.dirname(file)).toSorted(), ['vault.db', BACKUP])
  t.equal(fs.statSync(path.join(path.dirname(file), BACKUP)).mode & 0o777, 0o600)
  const backup = new Db(path.join(path.dirname(file), BACKUP))
  t.strictSame(backup.get('SELECT value FROM settings'), { value: 'blue' })
  backup.close()
})

t.test('a migration that fails leaves the old vault, which still opens', async (t) => {
  const file = vaultIn(makeHome(t))
  ;(await openDb(file)).close()
  const broken = [...MIGRATIONS, STEP, STEP]
  await t.rejects(openDb(file, broken), /already exists/)
  const db = await openDb(file)
  t.throws(() => db.get('SELECT * FROM step'), /no such table/)
  db.close()
})

t.test('without its backup no vault is changed', async (t) => {
  const file = vaultIn(makeHome(t))
  ;(await openDb(file)).close()
  fs.mkdirSync(path.join(path.dirname(file), BACKUP))
  t.match(await faultOf(openDb(file, NEXT)), { kind: 'broken' })
  t.strictSame(fs.readdirSync(path.dirname(file)).toSorted(), ['vault.db', BACKUP])
  ;(await openDb(file)).close()
})

t.test(
  'a vault from before MCP was served has everything, and room for its sessions',
  async (t) => {
    const file = vaultIn(makeHome(t))
    const old = await openDb(file, MIGRATIONS.slice(0, 1))
    old.insert('settings', { key: 'colour', value: 'blue' })
    t.throws(() => old.get('SELECT * FROM mcp_sessions'), /no such table/)
    old.exec('CREATE TRIGGER audit_added AFTER INSERT ON audit BEGIN SELECT 1; END') // it had one
    old.close()
    const db = await openDb(file)
    t.notOk(db.get("SELECT 1 FROM sqlite_schema WHERE name = 'audit_added'"))
    t.strictSame(db.get('SELECT value FROM settings'), { value: 'blue' })
    const row = { id: 'a.b.c', seen: 1, ended: 0 }
    db.insert('mcp_sessions', row)
    db.insert('mcp_sessions', { ...row, ended: 1 }, 'REPLACE')
    t.strictSame(db.all('SELECT * FROM mcp_sessions'), [{ ...row, ended: 1 }])
    t.throws(() => db.insert('mcp_sessions', { ...row, seen: 'late', id: 'd' }), /TEXT|INT/)
    db.close()
    t.ok(fs.existsSync(`${file}.backup-1`))
  },
)

t.test('a vault waits for a writer that will not share yet', async (t) => {
  const file = vaultIn(makeHome(t))
  ;(await openDb(file)).close()
  const writer = new DatabaseSync(file)
  writer.exec('PRAGMA journal_mode = DELETE; BEGIN IMMEDIATE')
  const opening = openDb(file)
  writer.exec('COMMIT')
  const db = await opening
  t.strictSame(db.get('PRAGMA journal_mode'), { journal_mode: 'wal' })
  db.close()
  writer.close()
})

t.test('a vault from a newer tai is refused and stays as it was, byte for byte', async (t) => {
  const file = vaultIn(makeHome(t))
  ;(await openDb(file, NEXT)).close()
  const raw = new DatabaseSync(file)
  raw.exec('PRAGMA journal_mode = DELETE')
  raw.close()
  const before = fs.readFileSync(file)
  t.match(await faultOf(openDb(file)), { kind: 'newer', message: /newer tai/ })
  t.ok(before.equals(fs.readFileSync(file)))
  t.strictSame(fs.readdirSync(path.dirname(file)), ['vault.db'])
})

t.test('what is no vault is refused, and left alone', async (t) => {
  const cases: readonly [what: string, kind: VaultError['kind'], make: (file: string) => void][] = [
    ['a text', 'corrupt', (file) => fs.writeFileSync(file, 'not a database, but long'.repeat(99))],
    ['a vault cut off', 'corrupt', (file) => fs.writeFileSync(file, torn())],
    ["another program's file", 'corrupt', foreign],
    ['a folder', 'broken', (file) => fs.mkdirSync(file)],
  ]
  for (const [what, kind, make] of cases) {
    const file = vaultIn(makeHome(t))
    make(file)
    const before = fs.statSync(file)
    t.match(await faultOf(openDb(file)), { kind, hint: /./ }, what)
    t.equal(fs.statSync(file).size, before.size, what)
    t.strictSame(fs.readdirSync(path.dirname(file)), ['vault.db'], what)
  }
  const blocked = makeHome(t)
  fs.writeFileSync(blocked, '')
  await t.rejects(openDb(path.join(blocked, 'vault.db')), VaultError, 'a file where the home is')
})

function foreign(file: string): void {
  const db = new DatabaseSync(file)
  db.exec('CREATE TABLE theirs (x); PRAGMA user_version = 1')
  db.close()
}

/** The first page of a vault whose header promises more. */
function torn(): Buffer {
  const page = Buffer.alloc(4_096)
  page.write('SQLite format 3\0')
  page.writeUInt16BE(4_096, 16)
  page.fill(1, 18, 20)
  page.set([64, 32, 32], 21)
  page.writeUInt32BE(500, 28)
  return page
}

t.test('a vault that cannot be written says so', { skip: !isRoot }, async (t) => {
  const home = makeHome(t)
  const file = vaultIn(home)
  fs.chmodSync(path.dirname(home), 0o755)
  const db = await openDb(file)
  db.insert('settings', { key: 'colour', value: 'blue' })
  db.close()
  for (const [place, mode] of [
    [file, 0o444],
    [home, 0o555],
  ] as const)
    fs.chmodSync(place, mode)
  // Root may write anywhere, so the look is taken as nobody.
  const child = startFake(t, 'vaultreader.ts', [file], { uid: 65_534, gid: 65_534 })
  t.strictSame((await once(child, 'message'))[0], ['readonly', 'check who owns TAI_HOME'])
})

t.test('a full disk is said, and nothing that was stored is lost', async (t) => {
  const file = vaultIn(makeHome(t))
  const db = await openDb(file)
  db.insert('settings', { key: 'colour', value: 'blue' })
  db.exec(
    `PRAGMA max_page_count = ${oneRow<{ page_count: number }>(db, 'PRAGMA page_count').page_count}`,
  )
  const fill = () =>
    db.tx(() => {
      db.insert('history', { line: 'x'.repeat(50_000) })
    })
  for (const time of ['first', 'second'])
    t.throws(fill, { name: 'VaultError', message: /disk is full/ }, `the ${time} time`)
  t.strictSame(db.all('SELECT line FROM history'), [])
  db.close()
  const again = await openDb(file)
  t.strictSame(again.get('SELECT value FROM settings'), { value: 'blue' })
  again.close()
})

t.test('many may make the same vault at once', async (t) => {
  const file = vaultIn(makeHome(t))
  const children = [1, 2, 3, 4].map(() => startFake(t, 'vaultmigrator.ts', [file]))
  const ends = await Promise.all(children.map((child) => once(child, 'exit')))
  t.strictSame(
    ends.map(([code]) => code),
    [0, 0, 0, 0],
  )
})

t.test('a tai killed on the way to a newer vault leaves the old one or the new one', async (t) => {
  const home = makeHome(t)
  await makeBigVault(home, 20_000)
  const file = path.join(home, 'vault.db')
  for (const delay of [0, 60, 120, 200]) {
    const child = startFake(t, 'vaultmigrator.ts', [file])
    await once(child, 'message')
    const timer = setTimeout(() => child.kill('SIGKILL'), delay) // the moment is the case
    await once(child, 'exit')
    clearTimeout(timer)
    const db = new Db(file)
    t.strictSame(db.get('SELECT integrity_check AS found FROM pragma_integrity_check'), {
      found: 'ok',
    })
    const { version } = oneRow<{ version: number }>(
      db,
      'SELECT user_version AS version FROM pragma_user_version',
    )
    const { made } = oneRow<{ made: number }>(
      db,
      `SELECT count(*) AS made FROM sqlite_schema WHERE name IN ('longer', 'longer_by_text')`,
    )
    t.equal(
      made,
      version === MIGRATIONS.length + 1 ? 2 : 0,
      `killed after ${delay} ms: version ${version}`,
    )
    db.close()
  }
  const db = await openDb(file, [...MIGRATIONS, LONG_WAY])
  t.equal(oneRow<{ n: number }>(db, 'SELECT count(*) AS n FROM longer').n, 20_020)
  db.close()
})

t.test('what is read once is read anew after a write, of another process soon', async (t) => {
  const file = path.join(t.testdir(), 'once.db')
  const [db, other] = [await openDb(file), await openDb(file)]
  t.teardown(() => [db, other].forEach((each) => each.close()))
  let reads = 0
  const keys = () =>
    db.once('keys', () => {
      reads += 1
      return db.all<{ key: string }>('SELECT key FROM settings ORDER BY key').map(({ key }) => key)
    })
  t.strictSame([keys(), keys()], [[], []])
  t.equal(reads, 1)
  db.insert('settings', { key: 'a', value: '1' })
  t.strictSame(keys(), ['a'], 'our own write is seen at once')
  db.insert('audit_heads', { chain: 'c', n: 0, hash: 'h' }, 'REPLACE')
  t.strictSame([keys(), reads], [['a'], 2], 'one to the audit changes nothing that is kept')
  other.insert('settings', { key: 'b', value: '1' })
  await pause(STORE_GLANCE + 5)
  t.strictSame(keys(), ['a', 'b'])
})
