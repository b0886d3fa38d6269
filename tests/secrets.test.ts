import * as fs from 'node:fs'
import * as path from 'node:path'
import t from 'tap'
import { columnSlot, openDb, Redactor, Secrets, Store, type StoreOptions } from '../tai.ts'
import { makeHome, makeWorld, oneRow, openStore, tamper, vaultBytes } from './fakes/vault.ts'

const holds = (home: string, text: string) => vaultBytes(home).includes(text)

t.test('a secret is set, given, listed by name and taken away', async (t) => {
  const store = await openStore(t)
  await store.secrets.set('OPENAI_API_KEY', 'first-value')
  await store.secrets.set('OPENAI_API_KEY', 'second-value')
  t.equal(await store.secrets.get('OPENAI_API_KEY'), 'second-value')
  t.equal(await store.secrets.get('other'), undefined)
  t.match(await store.secrets.list(), [{ name: 'OPENAI_API_KEY' }])
  t.equal(store.redactor.redact('it is second-value.'), 'it is [redacted:OPENAI_API_KEY].')
  t.equal(await store.secrets.delete('OPENAI_API_KEY'), true)
  t.equal(await store.secrets.delete('OPENAI_API_KEY'), false)
  t.strictSame(await store.secrets.list(), [])
})

t.test('a value that cannot be meant is refused', async (t) => {
  const store = await openStore(t)
  await t.rejects(store.secrets.set('empty', ''), { name: 'InvalidError' })
  t.strictSame(await store.secrets.list(), [])
})

t.test('the values of a vault are known as soon as it is open', async (t) => {
  const world = makeWorld(makeHome(t))
  const first = await Store.open(world)
  await first.secrets.set('${input:my key}', 'hunter2hunter2')
  first.close()
  const store = await openStore(t, {}, world)
  t.equal(store.redactor.known('say hunter2hunter2'), 'say [redacted:__input_my_key_]')
})

t.test('a value that was replaced or deleted is gone from the file', async (t) => {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  await store.secrets.set('A', 'the-first-value-of-a')
  await store.secrets.set('B', 'the-only-value-of-b'.repeat(1_000))
  t.ok(holds(home, 'the-first-value-of-a'))
  await store.secrets.set('A', 'another-value')
  await store.secrets.delete('B')
  t.notOk(holds(home, 'the-first-value-of-a'))
  t.notOk(holds(home, 'the-only-value-of-b'))
})

t.test('the seal covers every column that opens a door, and goes again', async (t) => {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  await store.secrets.set('A', 'plain-secret')
  const now = 1
  store.db.insert('mcp_servers', {
    name: 's',
    transport: 'http',
    source: 'explicit',
    created: now,
    updated: now,
    env_json: '{"KEY":"plain-env"}',
    headers_json: '{"Authorization":"plain-header"}',
  })
  store.db.insert('mcp_tokens', { server: 's', kind: 'oauth', value: 'plain-token', updated: now })
  store.db.insert('mcp_trust', { server: 's', value: 'plain-trust', updated: now })
  const plain = ['plain-secret', 'plain-env', 'plain-header', 'plain-token', 'plain-trust']
  const open = { on: false, locked: false }
  t.strictSame(await store.secrets.status(), open)
  t.strictSame(await store.secrets.turn('on', 'correct horse'), [])
  for (const value of plain) t.notOk(holds(home, value), value)
  t.match(await store.secrets.status(), { on: true, locked: false, source: 'passphrase' })
  t.equal(await store.secrets.get('A'), 'plain-secret')
  const token = oneRow<{ value: string }>(store.db, 'SELECT value FROM mcp_tokens').value
  t.equal(
    await store.secrets.within((seal) =>
      seal.open(token, columnSlot('mcp_tokens', 'value', 's', 'oauth')),
    ),
    'plain-token',
  )
  await t.rejects(store.secrets.turn('on', 'again'), { message: /already/ })
  t.strictSame(await store.secrets.turn('off'), [])
  for (const value of plain) t.ok(holds(home, value), value)
  await t.rejects(store.secrets.turn('off'), { message: /not sealed/ })
  await t.rejects(store.secrets.turn('rotate', 'new'), { message: /not sealed/ })
})

t.test('a locked vault gives and takes no secret until the passphrase is there', async (t) => {
  const world = makeWorld(makeHome(t))
  const first = await Store.open(world)
  await first.secrets.set('A', 'plain-secret')
  await first.secrets.turn('on', 'correct horse')
  first.close()
  first.close()
  t.throws(() => first.db.get('SELECT 1'), 'a closed store is closed')
  let typed = 'wrong horse'
  const locked = await openStore(t, { passphrase: async () => typed }, world)
  t.equal(locked.redactor.knows('plain-secret'), false)
  for (const act of [
    () => locked.secrets.get('A'),
    () => locked.secrets.set('B', 'plain-too'),
    () => locked.secrets.turn('off'),
    () => locked.secrets.turn('rotate', 'new'),
  ])
    await t.rejects(async () => void (await act()), { message: /needs-unlock/ }, String(act))
  t.match(await locked.secrets.list(), [{ name: 'A' }])
  t.match(await locked.secrets.status(), { on: true, locked: true })
  await locked.addRecord({ kind: 'note', title: 'notes', body: 'work on' })
  typed = 'correct horse'
  t.equal(await locked.secrets.get('A'), 'plain-secret')
  t.equal(locked.redactor.knows('plain-secret'), true)
})

t.test('the passphrase is asked for once, and only when a value is needed', async (t) => {
  const world = makeWorld(makeHome(t))
  const first = await Store.open(world)
  await first.secrets.set('A', 'plain-secret')
  await first.secrets.turn('on', 'correct horse')
  first.close()
  let asked = 0
  const passphrase = async () => {
    asked += 1
    return 'correct horse'
  }
  const options: StoreOptions = { passphrase }
  const store = await openStore(t, options, world)
  await store.audit('step', {})
  t.equal(asked, 0)
  const values = await Promise.all([1, 2, 3].map(() => store.secrets.get('A')))
  t.strictSame(values, ['plain-secret', 'plain-secret', 'plain-secret'])
  t.equal(asked, 1)
})

t.test('a new passphrase ends the old one, for other processes too', async (t) => {
  const world = makeWorld(makeHome(t))
  const one = await openStore(t, {}, world)
  await one.secrets.set('A', 'plain-secret')
  let typed: string | undefined
  const two = await openStore(t, { passphrase: async () => typed }, world)
  await one.secrets.turn('on', 'correct horse')
  await t.rejects(
    two.secrets.set('B', 'must-not-be-plain'),
    { message: /needs-unlock/ },
    'sealed meanwhile',
  )
  t.notOk(holds(world.home, 'must-not-be-plain'))
  typed = 'correct horse'
  await two.secrets.set('B', 'second-secret')
  await one.secrets.turn('rotate', 'battery staple')
  await t.rejects(two.secrets.get('A'), { message: /needs-unlock/ }, 'rotated meanwhile')
  typed = 'battery staple'
  t.strictSame(
    [await two.secrets.get('A'), await two.secrets.get('B')],
    ['plain-secret', 'second-secret'],
  )
})

t.test('a value swapped for another is told to who asks for it, and only then', async (t) => {
  const world = makeWorld(makeHome(t))
  const first = await Store.open(world)
  await first.secrets.set('A', 'secret-of-a')
  await first.secrets.set('B', 'secret-of-b')
  await first.secrets.turn('on', 'correct horse')
  first.close()
  tamper(world.home, `UPDATE secrets SET value = (SELECT value FROM secrets WHERE name = 'B')`)
  const store = await openStore(t, { passphrase: async () => 'correct horse' }, world)
  t.equal(await store.secrets.get('B'), 'secret-of-b')
  await t.rejects(store.secrets.get('A'), { message: /secrets\/value\/A does not open/ })
  await t.rejects(store.secrets.turn('off'), { message: /does not open/ })
  t.match(await store.secrets.status(), { on: true })
})

t.test('old backups that hold the values are named when the seal is turned', async (t) => {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  fs.writeFileSync(path.join(home, 'vault.db.backup-1'), 'old')
  t.match(await store.secrets.turn('on', 'correct horse'), [/vault\.db\.backup-1 still holds/])
})

t.test('Secrets stand on any vault', async (t) => {
  const db = await openDb(':memory:')
  t.teardown(() => db.close())
  const secrets = new Secrets(db, makeWorld('/nowhere'), new Redactor())
  await secrets.set('A', 'value-of-a')
  await secrets.turn('on', 'correct horse')
  await secrets.turn('rotate', 'battery staple')
  t.equal(await secrets.get('A'), 'value-of-a')
  await secrets.turn('off')
  t.equal(secrets.seal.state, undefined)
  t.equal(await secrets.delete('A'), true)
})
