import t from 'tap'
import {
  consentDigest,
  digest,
  grantedAs,
  MCP_MAX_SERVERS,
  McpRegistry,
  Store,
  type McpDefinition,
  type McpDrift,
  type McpEntry,
} from '../tai.ts'
import { entryOf } from './fakes/entry.ts'
import { makeHome, makeWorld, openStore, vaultBytes } from './fakes/vault.ts'
import { toolNamed } from './fakes/upstream.ts'

type Test = Parameters<typeof makeHome>[0]

const stdio = (more: Partial<McpEntry> = {}) => entryOf({ name: 's', command: 'serve', ...more })
const one: McpDefinition = toolNamed('one')
const two: McpDefinition = toolNamed('two')
const three: McpDefinition = toolNamed('three')
const added = (now: McpDefinition): McpDrift => ({ now, before: undefined })

async function registryIn(t: Test) {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  return { home, store, registry: new McpRegistry(store, () => 1) }
}

t.test('an entry comes back as it was added, and adding it again changes nothing', async (t) => {
  const { registry, store } = await registryIn(t)
  const whole = stdio({
    args: ['--flag', '${X:-y}'],
    env: { KEY: 'v', __proto__x: 'w' },
    cwd: '/tmp',
    headers: { Authorization: 'Bearer x' },
    allow: ['a*'],
    deny: ['ab'],
    options: { era: 'legacy', toolPrefix: 'none' },
  })
  const socket = entryOf({ name: 'u', transport: 'http', url: 'http://x/mcp', socket: '/run/u' })
  for (const entry of [whole, socket]) await registry.add(entry, 'explicit')
  const rows = JSON.stringify(store.db.all('SELECT * FROM mcp_servers'))
  for (const entry of [whole, socket]) {
    t.strictSame(await registry.get(entry.name), entry)
    await registry.add(entry, 'config-json')
  }
  t.equal(JSON.stringify(store.db.all('SELECT * FROM mcp_servers')), rows)
  registry.learn('s', [one])
  t.strictSame(await registry.get('s'), whole, 'what tai keeps beside it is no option of its')
})

t.test('another entry under the same name is refused, with what to do', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  for (const other of [{ args: ['x'] }, { env: { A: 'b' } }, { deny: ['x'] }, { cwd: '/' }])
    await t.rejects(registry.add(stdio(other), 'explicit'), {
      message: 'there is another server named s',
      hint: /`tai mcp remove s` first/,
    })
  t.strictSame(await registry.get('s'), stdio())
})

t.test('a vault has room for so many servers, and for the same again', async (t) => {
  const { registry } = await registryIn(t)
  const names = Array.from({ length: MCP_MAX_SERVERS }, (_, n) => `s${n}`)
  for (const name of names) await registry.add(stdio({ name }), 'explicit')
  await t.rejects(registry.add(stdio({ name: 'more' }), 'explicit'), {
    message: `there are ${MCP_MAX_SERVERS} servers already`,
    hint: /mcp remove/,
  })
  await registry.add(stdio({ name: 's0' }), 'explicit')
  t.equal(registry.list().length, MCP_MAX_SERVERS)
  registry.remove('s1')
  await registry.add(stdio({ name: 'more' }), 'explicit')
})

t.test('values of variables and headers are sealed with the vault, and open again', async (t) => {
  const { home, registry, store } = await registryIn(t)
  const secrets = ['plain-env-value', 'plain-header-value']
  const [KEY = '', header = ''] = secrets
  const entry = stdio({ env: { KEY }, headers: { 'X-Key': header } })
  await registry.add(entry, 'explicit')
  await store.secrets.turn('on', 'correct horse')
  for (const secret of secrets) t.notOk(vaultBytes(home).includes(secret), 'sealed')
  t.strictSame(await registry.get('s'), entry)
  const column = () => store.db.get<{ env_json: string }>('SELECT env_json FROM mcp_servers')
  const before = column()
  await store.secrets.turn('rotate', 'battery staple')
  t.notSame(column(), before, 'sealed with the new key')
  t.strictSame(await registry.get('s'), entry)
  const later = stdio({ name: 'later', env: { KEY: 'another-env-value' } })
  await registry.add(later, 'explicit')
  t.notOk(vaultBytes(home).includes('another-env-value'), 'one that comes later too')
  await store.secrets.turn('off')
  t.match(column(), { env_json: JSON.stringify({ KEY }) })
  t.strictSame(await registry.get('later'), later)
})

t.test('a locked vault tells which servers there are, and gives none away', async (t) => {
  const { home, registry, store } = await registryIn(t)
  await registry.add(stdio({ env: { KEY: 'x' } }), 'explicit')
  registry.learn('s', [one])
  await store.secrets.turn('on', 'correct horse')
  const locked = await Store.open(makeWorld(home))
  t.teardown(() => locked.close())
  const there = new McpRegistry(locked, () => 1)
  t.match(there.list(), [{ name: 's', command: 'serve' }])
  t.match(there.definitions('s'), [one])
  await t.rejects(there.get('s'), { message: /seal|lock/, hint: /TAI_SEAL_PASSPHRASE/ })
})

t.test('removal leaves no row behind, but what was said of its trust', async (t) => {
  const { registry, store } = await registryIn(t)
  const sql =
    "SELECT name FROM sqlite_schema WHERE name LIKE 'mcp\\_%' ESCAPE '\\' AND type = 'table'"
  const tables = store.db.all<{ name: string }>(sql).map(({ name }) => name)
  const holding = (server: string) =>
    tables.filter((table) => {
      const columns = store.db.all<{ name: string }>(`PRAGMA table_info(${table})`)
      const key = columns.find(({ name }) => name === 'server')?.name ?? 'name'
      if (!columns.some(({ name }) => name === key)) return false
      return store.db.get(`SELECT 1 FROM ${table} WHERE ${key} = ?`, server) !== undefined
    })
  for (const name of ['s', 'stays']) {
    const entry = stdio({ name, options: { era: 'modern' } })
    await registry.add(entry, 'explicit')
    registry.consent(entry)
    registry.enable(name, 'default')
    registry.learn(name, [one])
    store.db.insert('mcp_tokens', { server: name, kind: 'oauth', value: 'v', updated: 1 })
  }
  const all = holding('s')
  t.ok(all.length >= 7, all.join())
  t.equal(registry.remove('s'), true)
  t.strictSame(holding('s'), ['mcp_trust'])
  t.strictSame(holding('stays'), all)
  t.equal(registry.remove('s'), false)
})

t.test('consent is for one thing; what else would be started needs another', async (t) => {
  const { registry } = await registryIn(t)
  const entry = stdio({ args: ['a'], env: { KEY: 'v' }, headers: { 'X-Key': 'v' } })
  registry.consent(entry)
  t.ok(registry.hasConsent(entry))
  const same: Partial<McpEntry>[] = [
    { env: { KEY: 'w' } },
    { headers: { 'X-Key': 'w' } },
    { allow: ['x'], options: { era: 'modern' } },
  ]
  for (const more of same) t.ok(registry.hasConsent({ ...entry, ...more }), JSON.stringify(more))
  const others: Partial<McpEntry>[] = [
    { command: 'other' },
    { args: ['b'] },
    { args: ['a', 'b'] },
    { cwd: '/tmp' },
    { env: { KEY: 'v', MORE: '' } },
    { env: {} },
    { url: 'http://x' },
    { socket: '/run/x' },
    { headers: { 'X-Other': 'v' } },
    { name: 'other' },
  ]
  for (const more of others)
    t.notOk(registry.hasConsent({ ...entry, ...more }), JSON.stringify(more))
  t.match(consentDigest(entry), /^[0-9a-f]{64}$/)
})

t.test('a server is enabled for one profile at a time, and never by itself', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  const profiles = () => registry.row('s').profiles
  t.strictSame(profiles(), [])
  registry.enable('s', 'default')
  registry.enable('s', 'work')
  registry.enable('s', 'work')
  t.strictSame(profiles(), ['default', 'work'])
  registry.enable('s', 'default', false)
  t.strictSame(profiles(), ['work'])
  t.throws(() => registry.enable('t\u001b[2J', 'work'), {
    message: 'there is no server t\\e[2J',
  })
})

t.test('the tools of the first listing are taken as they are', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  t.strictSame(registry.learn('s', [one, two]), [])
  t.strictSame(registry.definitions('s'), [one, two])
  t.strictSame(registry.learn('s', [two, one]), [], 'in whatever order they come')
  const reordered = { ...one, inputSchema: { properties: {}, type: 'object' } }
  t.strictSame(registry.learn('s', [reordered, two]), [], 'nor does the order of keys count')
})

t.test('a server that first had no tool has them withheld when they come', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  t.strictSame(registry.learn('s', []), [])
  t.match(registry.learn('s', [one]), [added(one)])
})

t.test('what is new or changed waits, beside what was accepted', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  registry.learn('s', [one, two])
  const sly = { ...one, description: 'It also reads ~/.ssh.' }
  const wider = { ...two, inputSchema: { type: 'object', properties: { path: {} } } }
  t.match(registry.learn('s', [sly, wider, three]), [
    { now: sly, before: one },
    { now: wider, before: two },
    added(three),
  ])
  t.strictSame(registry.definitions('s'), [one, two], 'the old descriptions stay')
  t.strictSame(registry.learn('s', [one, two]), [], 'as it was again: nothing waits')
})

t.test('what waits is granted one by one or all at once, and only as it was seen', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  registry.learn('s', [one])
  registry.learn('s', [one, two, three])
  t.throws(() => registry.grant('s', ['two', 'nope']), {
    message: 'no tool nope of s waits for a grant',
  })
  t.equal(registry.drift('s').length, 2, 'a wrong name grants nothing')
  t.strictSame(registry.grant('s', ['two']), ['two'])
  t.match(registry.drift('s'), [{ now: three }])
  t.strictSame(registry.grant('s'), ['three'])
  t.strictSame(registry.learn('s', [one, two, three]), [])
  const sly = { ...three, description: 'Other.' }
  t.match(registry.learn('s', [one, two, sly]), [{ now: sly, before: three }], 'changed since')
})

t.test('a tool that is gone goes without a word, and is new when it comes back', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  registry.learn('s', [one, two])
  t.strictSame(registry.learn('s', [one]), [])
  t.strictSame(registry.definitions('s'), [one])
  t.match(registry.learn('s', [one, two]), [added(two)])
})

t.test('a secret that a server puts into a description is not kept', async (t) => {
  const { home, registry, store } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  await store.secrets.set('TOKEN', 'its-own-token-55')
  const leaky = toolNamed('one', 'Logged in with its-own-token-55.', {
    key: { default: 'its-own-token-55' },
  })
  registry.learn('s', [two])
  t.notMatch(JSON.stringify(registry.learn('s', [two, leaky])), 'its-own-token-55')
  registry.grant('s')
  t.strictSame(registry.learn('s', [two, leaky]), [], 'what was granted is known again')
  t.match(registry.definitions('s')[1], { description: 'Logged in with [redacted:TOKEN].' })
  await store.secrets.turn('on', 'correct horse')
  t.notOk(vaultBytes(home).includes('its-own-token-55'))
})

t.test('grants for its tools go with a server, and no others', async (t) => {
  const { registry, store } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  const open = { mode: undefined, session: undefined, expires: undefined, digest: undefined }
  const bounds = { ...open, scope: 'always', paths: [], commands: [], root: undefined } as const
  for (const tool of [grantedAs('s', 'one'), grantedAs('s2', 'one'), 'shell_exec'])
    await store.addGrant({ tool, ...bounds })
  registry.remove('s')
  const left = (await store.listGrants()).map(({ tool }) => tool)
  t.strictSame(left.toSorted(), [grantedAs('s2', 'one'), 'shell_exec'])
})

t.test('a listing is compared with the pins, whatever another listing said', async (t) => {
  const { registry } = await registryIn(t)
  await registry.add(stdio(), 'explicit')
  registry.learn('s', [one])
  const evil = { ...one, description: 'It does something else.' }
  const pinnedAs = (tool: McpDefinition) => ({ ...tool, hash: digest(tool) })
  registry.learn('s', [evil])
  registry.learn('s', [one]) // of another process
  t.equal(registry.accepts('s', pinnedAs(one)), true)
  t.equal(registry.accepts('s', pinnedAs(evil)), false)
})

// --- trust ---

const ALLOWED = { trusted: true, allowed_tools: [], denied_tools: [], expires_at: null }
const DENIED = { ...ALLOWED, trusted: false }

t.test('consent brings trust, and lifts no denial', async (t) => {
  const { registry } = await registryIn(t)
  for (const name of ['s', 'd']) await registry.add(stdio({ name }), 'explicit')
  registry.setTrust('d', DENIED)
  t.strictSame([...registry.trusts()], [['d', DENIED]])
  for (const name of ['s', 'd']) registry.consent(stdio({ name }))
  t.strictSame(Object.fromEntries(registry.trusts()), { s: ALLOWED, d: DENIED })
})

t.test('what is revoked is as if nobody had agreed to it', async (t) => {
  const { registry } = await registryIn(t)
  for (const name of ['s', 'stays']) {
    await registry.add(stdio({ name }), 'explicit')
    registry.consent(stdio({ name }))
    registry.enable(name, 'default')
  }
  registry.revokeTrust('s')
  t.strictSame([...registry.trusts().keys()], ['stays'])
  t.notOk(registry.hasConsent(stdio()))
  t.ok(registry.hasConsent(stdio({ name: 'stays' })))
  t.match(registry.list(), [{ profiles: [] }, { profiles: ['default'] }])
})

t.test('trust is sealed with the vault, and a locked one gives none', async (t) => {
  const { home, registry, store } = await registryIn(t)
  registry.setTrust('before', { ...ALLOWED, denied_tools: ['a-tool-of-before'] })
  await store.secrets.turn('on', 'correct horse')
  registry.setTrust('after', { ...ALLOWED, denied_tools: ['a-tool-of-after'] })
  for (const word of ['a-tool-of-before', 'a-tool-of-after'])
    t.notOk(vaultBytes(home).includes(word), word)
  t.equal(registry.trusts().size, 2)
  const passphrases = ['correct horse']
  const passphrase = async () => passphrases.shift()
  const locked = await openStore(t, { passphrase }, makeWorld(home))
  const there = new McpRegistry(locked, () => 1)
  t.throws(() => there.trusts(), { message: /needs-unlock/, hint: /TAI_SEAL_PASSPHRASE/ })
  t.throws(() => there.trust('of nobody'), { message: /needs-unlock/ }, 'a row may be about it')
  await there.unlockTrust()
  t.strictSame(there.trust('after').denied_tools, ['a-tool-of-after'])
})

t.test('where nothing was said of trust, nobody is asked for the passphrase', async (t) => {
  const { home, store } = await registryIn(t)
  await store.secrets.turn('on', 'correct horse')
  const passphrase = () => Promise.reject(new Error('asked'))
  const there = new McpRegistry(await openStore(t, { passphrase }, makeWorld(home)), () => 1)
  await there.unlockTrust()
  t.equal(there.trusts().size, 0)
})
