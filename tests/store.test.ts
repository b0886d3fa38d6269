import { once } from 'node:events'
import * as fs from 'node:fs'
import * as path from 'node:path'
import t from 'tap'
import { MODES, Store, UNDO_STEPS_MAX, type Grant, type StoreOptions } from '../tai.ts'
import { makeHome, makeWorld, openStore, startFake } from './fakes/vault.ts'

const GRANT = {
  tool: 'shell_exec',
  scope: 'always',
  mode: undefined,
  digest: 'd1',
  session: undefined,
  root: undefined,
  paths: ['src/**'],
  commands: ['npm test'],
  expires: undefined,
} as const

t.test('settings, profiles and todos keep their values', async (t) => {
  const world = makeWorld(makeHome(t))
  const first = await Store.open(world)
  await first.setSetting('model', 'openai/x')
  await first.setSetting('theme', 'dark')
  await first.setSetting('theme', undefined)
  for (const mode of [undefined, ...MODES])
    await first.saveProfile({
      name: mode ?? 'plain',
      prompt: undefined,
      model: undefined,
      mode,
      tools: mode && ['file_read'],
    })
  await first.setTodos('s', [{ id: '1', text: 'first', status: 'pending' }])
  const todo = { id: '1', text: 'first', status: 'in_progress' } as const
  await first.setTodos('s', [todo])
  first.close()
  const store = await openStore(t, {}, world)
  t.strictSame(await store.getSettings(), { model: 'openai/x' })
  t.match(await store.getProfile('plain'), { prompt: undefined, tools: undefined, mode: undefined })
  const allow = await store.getProfile('allow')
  t.match(allow, { tools: ['file_read'], mode: 'allow' })
  await store.saveProfile({ name: 'plain', prompt: 'Hi', model: 'm', tools: [], mode: 'allow' })
  t.match(await store.getProfile('plain'), { prompt: 'Hi', model: 'm', tools: [], mode: 'allow' })
  t.equal((await store.listProfiles()).length, MODES.length + 2, 'with the default one')
  t.equal(await store.deleteProfile('plain'), true)
  t.equal(await store.deleteProfile('plain'), false)
  t.equal(await store.getProfile('plain'), undefined)
  t.strictSame(await store.getTodos('s'), [todo])
  t.strictSame(await store.getTodos('other'), [])
})

t.test('a grant is listed until it ends', async (t) => {
  let now = 1_000
  const store = await openStore(t, {}, makeWorld(makeHome(t), { now: () => now }))
  const first: Grant = await store.addGrant(GRANT)
  const short = await store.addGrant({ ...GRANT, scope: 'session', session: 's', expires: 2_000 })
  const always = await store.addGrant({ ...GRANT, tool: 'git_commit', scope: 'always' })
  t.strictSame(await store.listGrants(), [always, short, first])
  t.strictSame(await store.listGrants('git_commit'), [always])
  now = 2_000
  t.strictSame(await store.listGrants('shell_exec'), [first])
  t.equal(await store.revokeGrant(always.id), true)
  t.equal(await store.revokeGrant(always.id), false)
  t.strictSame(await store.listGrants(), [first])
})

t.test('every kind of grant comes back as it was given', async (t) => {
  const store = await openStore(t)
  const scopes = ['session', 'always', 'deny'] as const
  for (const scope of scopes)
    for (const mode of MODES) {
      const given = await store.addGrant({ ...GRANT, scope, mode, paths: [], digest: undefined })
      t.strictSame((await store.listGrants())[0], given)
    }
})

t.test('the undo journal gives back bytes as they were, the newest first', async (t) => {
  const store = await openStore(t)
  const bytes = Buffer.from([0, 255, 10, 13, 128])
  const file = { kind: 'file', mode: 0o755, after: 'hash' } as const
  await store.pushUndo('s', [
    { ...file, path: 'a', before: bytes, group: 'g1' },
    { ...file, path: 'empty', before: Buffer.alloc(0), group: 'g1' },
  ])
  const absent = { kind: 'absent', before: undefined, mode: undefined, after: undefined } as const
  await store.pushUndo('s', [{ ...absent, path: 'a', group: 'g2' }])
  const all = await store.listUndo('s', 9)
  t.strictSame(
    all.map(({ n, path, before, group }) => [n, path, before && Buffer.from(before), group]),
    [
      [3, 'a', undefined, 'g2'],
      [2, 'empty', Buffer.alloc(0), 'g1'],
      [1, 'a', bytes, 'g1'],
    ],
  )
  const groupsOf = async (most: number, path: string) =>
    (await store.listUndo('s', most, path)).map(({ group }) => group)
  t.strictSame(await groupsOf(1, 'a'), ['g2'])
  t.strictSame(await groupsOf(9, 'empty'), ['g1', 'g1'], 'a call is listed whole')
  t.match(all[0], absent)
  t.match(all[2], file)
  await store.dropUndo('s', ['g1'])
  t.strictSame(
    (await store.listUndo('s', 9)).map(({ n }) => n),
    [3],
  )
  t.strictSame(await store.listUndo('other', 9), [])
})

const entry = (group: string, name: number) =>
  ({
    path: String(name),
    before: Buffer.from('x'),
    mode: 0o644,
    kind: 'file',
    after: undefined,
    group,
  }) as const

t.test('the oldest changes are forgotten, whole calls at a time', async (t) => {
  const store = await openStore(t)
  const count = async () => (await store.listUndo('s', 999)).length
  await store.pushUndo('other', [entry('theirs', 1)])
  await store.pushUndo('s', [entry('old', 1), entry('old', 2)])
  for (let i = 1; i < UNDO_STEPS_MAX; i++) await store.pushUndo('s', [entry(`g${i}`, i)])
  t.equal(await count(), UNDO_STEPS_MAX + 1, 'calls are counted, not files')
  const many = Array.from({ length: UNDO_STEPS_MAX + 9 }, (_, i) => entry('big', i))
  await store.pushUndo('s', many)
  t.equal(await count(), UNDO_STEPS_MAX - 1 + many.length, 'the oldest call went as a whole')
  t.equal((await store.listUndo('other', 9)).length, 1)
})

t.test('history remembers lines without repeats and secrets', async (t) => {
  const store = await openStore(t)
  store.redactor.add('KEY', 'hunter2hunter2')
  for (const line of ['one', 'two', 'two', 'use hunter2hunter2', 'one'])
    await store.addHistory(line)
  t.strictSame(await store.listHistory(9), ['one', 'use [redacted:KEY]', 'two'])
  t.strictSame(await store.listHistory(1), ['one'])
})

t.test('eight that write at once never meet a lock, and all is there', async (t) => {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  const ids = [1, 2].map((n) =>
    store.createSession({ title: `${n}`, profile: 'p', model: 'm', workspace: '/' }),
  )
  const [one = '', two = ''] = await Promise.all(ids)
  const children = Array.from({ length: 8 }, (_, i) =>
    startFake(t, 'vaultwriter.ts', [home, i % 2 === 0 ? one : two, '40']),
  )
  const errors: string[] = []
  for (const child of children) child.stderr?.on('data', (text) => errors.push(String(text)))
  await Promise.all(children.map((child) => once(child, 'message')))
  const ends = children.map((child) => once(child, 'exit'))
  for (const child of children) child.send('go')
  t.strictSame((await Promise.all(ends)).map(([code]) => code).join(), '0,0,0,0,0,0,0,0')
  t.strictSame(errors, [])
  for (const id of [one, two]) {
    const numbers = (await store.messages(id)).map(({ n }) => n)
    t.strictSame(
      numbers,
      Array.from({ length: 160 }, (_, i) => i + 1),
    )
  }
  t.strictSame(await store.verifyAudit(), { rows: 320, chains: 8, problems: [] })
})

t.test('writers that are killed leave a vault that opens, is whole and verifies', async (t) => {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  const session = { title: 's', profile: 'p', model: 'm', workspace: '/' }
  const id = await store.createSession(session)
  for (let round = 0; round < 2; round++) {
    const children = [1, 2].map(() => startFake(t, 'vaultwriter.ts', [home, id, '0']))
    await Promise.all(children.map((child) => once(child, 'message')))
    const underWay = children.map((child) => once(child, 'message'))
    for (const child of children) child.send('go')
    await Promise.all(underWay)
    const ends = children.map((child) => once(child, 'exit'))
    for (const child of children) child.kill('SIGKILL')
    await Promise.all(ends)
  }
  const again = await openStore(t, {}, makeWorld(home))
  t.strictSame(again.db.all('SELECT integrity_check AS i FROM pragma_integrity_check'), [
    { i: 'ok' },
  ])
  const { chains, problems } = await again.verifyAudit()
  t.strictSame([chains, problems], [4, []])
  const numbers = (await again.messages(id)).map(({ n }) => n)
  t.strictSame(
    numbers,
    numbers.map((_, i) => i + 1),
  )
})

t.test('a store in memory begins with the settings and secrets that can be read', async (t) => {
  const world = makeWorld(makeHome(t))
  const empty = await Store.memory(world)
  t.strictSame(await empty.secrets.list(), [])
  empty.close()
  t.notOk(fs.existsSync(world.home))
  const first = await Store.open(world)
  await first.setSetting('model', 'openai/x')
  await first.secrets.set('A', 'value-of-a')
  await first.secrets.turn('on', 'correct horse')
  await first.addGrant(GRANT)
  first.close()
  const file = path.join(world.home, 'vault.db')
  const before = fs.readFileSync(file)
  const options: StoreOptions = { passphrase: async () => 'correct horse' }
  const store = await Store.memory(world, options)
  t.teardown(() => store.close())
  t.equal(await store.secrets.get('A'), 'value-of-a')
  t.strictSame(await store.getSettings(), { model: 'openai/x' })
  t.match(await store.listGrants(), [GRANT])
  const id = await store.createSession({ title: 's', profile: 'p', model: 'm', workspace: '/' })
  t.equal(await store.appendMessage(id, { role: 'system', text: 'x' }), 1)
  await store.audit('step', {})
  t.strictSame((await store.verifyAudit()).problems, [])
  t.ok(before.equals(fs.readFileSync(file)), 'the vault is as it was')
})
