// What people complain of in other clients (lines 22 to 38 of complaints.md), each by its number and
// as they meet it: a server, a model, the built binary. Those not here are tested where they live:
// 26 in dialects, 29 in kill, 31 in rpc, 35 in httpleg, 37 in stdio. Then what cases f07 and f09 say
// of servers' tools; the last step of f05 is in kill, that of g05 in client.
import t from 'tap'
import { readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './fakes/binary.ts'
import { groupIsGone } from './fakes/groups.ts'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { ended, folder, modelEnv, start, tai } from './fakes/tai.ts'
import { pasteOf, toolNamed, upstream, type Saying } from './fakes/upstream.ts'

type Test = Pick<typeof t, 'teardown'>
type Sent = { name: string; parameters: Record<string, unknown> & { properties: object } }
type Message = { role: string; content: unknown }

/** A server that is enabled, and what a model is sent in a turn that takes these steps. */
async function scene(t: Test, saying: Saying, { name = 'awk', paste = '' } = {}) {
  const home = folder()
  const stub = upstream(home, saying, { name })
  const model = await startModel()
  t.teardown(() => model.close())
  const env = { ...modelEnv(model), WHERE: home }
  const stdin = paste === '' ? pasteOf(stub.entry) : paste.replaceAll('FILE', `${name}.json`)
  const added = await tai(['mcp', 'add', '-', '--yes', '-P', 'default'], { home, env, stdin })
  const turn = async (flags: string[], ...steps: ModelTurn[]) => {
    const first = model.requests.length
    model.push(...steps, { text: 'done' })
    const run = await tai([...flags, 'go on'], { home, env })
    const bodies = model.requests.slice(first).map(({ body }) => body)
    const offered = bodies.map(({ tools }): Sent[] =>
      tools.map((each: { function: Sent }) => each.function),
    )
    const replies = bodies.map(({ messages }) => messages.at(-1) as Message)
    return { ...run, offered, replies }
  }
  return {
    home,
    env,
    stub,
    model,
    added,
    turn,
    mcp: (...args: string[]) => tai(['mcp', ...args], { home, env }),
  }
}

const select = (query: string): ModelTurn => ({
  calls: [{ name: 'select_tools', args: { query } }],
})
const call = (name: string, args: object = {}): ModelTurn => ({ calls: [{ name, args }] })
const schemaNamed = (name: string, inputSchema: unknown) => ({ ...toolNamed(name), inputSchema })

t.test('22: a long name is cut to what providers take, and still called', async (t) => {
  const long = 'synchronize_all_customer_data_across_multiple_systems_v2'
  const name = 'enterprise-database-management'
  const it = await scene(t, { tools: [toolNamed(long)] }, { name })
  const { offered } = await it.turn(['--yolo'], select('synchronize customer'))
  const [sent] = offered[1]?.filter((each) => each.name.startsWith('mcp_enterprise')) ?? []
  t.match(sent?.name, /^[a-z0-9_]{1,64}$/)
  const { replies } = await it.turn(['--yolo'], call(`${sent?.name}`))
  t.match(replies[1]?.content, `"name":"${long}"`)
})

t.test('23, 24, 25: schemas that providers refuse arrive as they take them', async (t) => {
  const ref = { $ref: '#/$defs/mode' }
  const tools = [
    schemaNamed('bare', { type: 'object' }),
    schemaNamed('named', { type: 'object', properties: { properties: { type: 'string' } } }),
    schemaNamed('either', { anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }] }),
    schemaNamed('referred', {
      type: 'object',
      properties: { m: ref },
      $defs: { mode: { enum: ['x'] } },
    }),
  ]
  const it = await scene(t, { tools })
  const names = tools.map(({ name }) => `mcp_awk_${name}`)
  const { offered } = await it.turn(['--yolo', '--tools', names.join()])
  const sent = Object.fromEntries(
    (offered[0] ?? []).map(({ name, parameters }) => [name, parameters]),
  )
  for (const parameters of Object.values(sent))
    t.match(parameters, { type: 'object', properties: {} })
  t.match(sent['mcp_awk_named']?.properties, { properties: { type: 'string' } })
  t.strictSame(Object.keys(sent['mcp_awk_either']?.properties ?? {}), ['a', 'b'])
  t.notOk('anyOf' in (sent['mcp_awk_either'] ?? {}))
  t.match(sent['mcp_awk_referred']?.properties, { m: { enum: ['x'] } })
})

t.test('27: one tool that cannot be used leaves the others', async (t) => {
  const odd = { ...toolNamed('odd'), outputSchema: { $id: 'x' } }
  const it = await scene(t, { tools: [schemaNamed('broken', 7), odd, toolNamed('plain')] })
  t.match(it.added.out, /2 tools: odd, plain; left out: broken/)
  t.match((await it.mcp('call', 'awk', 'odd')).out, '"name":"odd"')
})

t.test('28, 36: words on stdout are no messages, and ${VAR} is filled in arguments', async (t) => {
  const { entry } = upstream(folder(), { tools: [] })
  const script = `echo "Server ready"; exec "$0" "$@"`
  const args = ['-c', script, entry.command, entry.args[0], '${WHERE}/FILE']
  const paste = JSON.stringify({ mcpServers: { awk: { command: 'sh', args } } })
  const it = await scene(t, { tools: [toolNamed('ping')] }, { paste })
  t.equal(it.added.code, 0, it.added.err)
  t.match(it.added.err, /\$\{WHERE\}\/awk\.json[^]*fills in: WHERE \(the environment\)/)
  t.match((await it.mcp('call', 'awk', 'ping')).out, '"name":"ping"')
})

t.test('30: a turn waits for no server that it does not use', async (t) => {
  const it = await scene(t, { tools: [toolNamed('ping')] })
  const before = it.stub.seen().length
  const run = await it.turn([])
  t.match(run, { code: 0, out: /done/ })
  t.equal(it.stub.seen().length, before, 'it was not even started')
})

t.test('32: a huge result is kept whole, and the model reads what it needs', async (t) => {
  const text = `${'x'.repeat(318_000)} the end`
  const calls = { huge: { result: { content: [{ type: 'text', text }] } } }
  const it = await scene(t, { tools: [toolNamed('huge')], calls })
  const { replies } = await it.turn(['--yolo'], call('mcp_awk_huge'))
  const said = String(replies[1]?.content)
  t.ok(said.length < 4_000, `${said.length} characters`)
  const [, id = ''] = /record (\w+)/.exec(said) ?? []
  const more = await it.turn(['--yolo'], call('vault_read', { id, offset: 317_990 }))
  t.match(more.replies[1]?.content, /x the end/)
})

t.test('33: many tools cost nothing until they are asked for', async (t) => {
  const tools = Array.from({ length: 90 }, (_, i) => toolNamed(`tool${i}`))
  const it = await scene(t, { tools: [...tools, toolNamed('weather', 'Forecast for a city.')] })
  const { offered } = await it.turn(['--yolo'], select('weather forecast'))
  const [first = [], second = []] = offered.map((row) => row.map(({ name }) => name))
  t.notOk(first.some((name) => name.startsWith('mcp_awk')))
  t.ok(second.includes('mcp_awk_weather'))
  t.ok(second.length < first.length + 11, `${second.length} after ${first.length}`)
})

t.test('34: a picture alone, and structured content alone, reach the model', async (t) => {
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const calls = {
    look: { result: { content: [{ type: 'image', mimeType: 'image/png', data: png }] } },
    count: { result: { content: [], structuredContent: { left: 3 }, isError: true } },
  }
  const it = await scene(t, { tools: ['look', 'count'].map((name) => toolNamed(name)), calls })
  const { replies } = await it.turn(['--yolo'], call('mcp_awk_count'), call('mcp_awk_look'))
  t.match(replies[1]?.content, '{"left":3}')
  t.match(JSON.stringify(replies[2]?.content), png)
})

t.test(
  '38: one tool can be allowed where nobody can be asked, by the name that is told',
  async (t) => {
    const it = await scene(t, { tools: ['ping', 'other'].map((name) => toolNamed(name)) })
    const refused = await it.turn([], call('mcp_awk_ping'))
    const [rule = ''] = /tai approval grant \w+/.exec(String(refused.replies[1]?.content)) ?? []
    t.equal(rule, 'tai approval grant mcp_awk_ping')
    const granted = await tai(rule.split(' ').slice(1), { home: it.home, env: it.env })
    t.equal(granted.code, 0, granted.err)
    const { replies } = await it.turn([], call('mcp_awk_ping'), call('mcp_awk_other'))
    t.match(replies[1]?.content, '"name":"ping"')
    t.match(replies[2]?.content, /was not run/)
  },
)

// --- cases of families f and g whose tool is a server's ---

const DELETES: Saying = { tools: [toolNamed('delete_all')] }

t.test('f09: what is piped in answers no question about a tool of a server', async (t) => {
  const it = await scene(t, DELETES)
  it.model.push(call('mcp_awk_delete_all'), { text: 'so be it' })
  const run = await tai(['do it'], { home: it.home, env: it.env, stdin: 'y\ny\nyes\n' })
  t.match(run, { code: 0, out: /so be it/, err: /mcp_awk_delete_all/ })
  t.strictSame(it.stub.calls(), [])
  t.match(it.model.requests.at(-1)?.body.messages.at(-1).content, /nobody can be asked/)
  for (const flag of ['--auto', '--yolo']) await it.turn([flag], call('mcp_awk_delete_all'))
  t.equal(it.stub.calls().length, 2, 'with --auto and --yolo nobody need be asked')
})

t.test('f09: on the terminal the question names server, tool and digest', async (t) => {
  if (!ptyAvailable) return void t.comment('there are no pseudo-terminals here')
  for (const [key, calls] of [
    ['n', 0],
    ['y', 1],
  ] as const) {
    const it = await scene(t, DELETES)
    it.model.push(call('mcp_awk_delete_all', { all: true }), { text: 'so be it' })
    const asks = /mcp_awk_delete_all \([0-9a-f]{12}\) of server awk wants to run[^]*\[y\/.*\]/
    const env = { ...it.env, HOME: it.home, TAI_HOME: `${it.home}/.tai` }
    const command = `printf data | '${await binary()}' 'do it'`
    const shown = await runInPty(command, [{ wait: asks, type: `${key}\r` }], { env })
    t.match(shown.output, /so be it/)
    t.equal(it.stub.calls().length, calls, key)
    t.match(JSON.stringify(it.model.requests.at(-1)?.body.messages), 'data')
  }
})

t.test('f07: Ctrl-C in a call of a server takes it back; the session goes on', async (t) => {
  const it = await scene(t, { tools: [toolNamed('sleep')], calls: { sleep: { hang: true } } })
  const both = [...call('time_now').calls!, ...call('mcp_awk_sleep').calls!]
  it.model.push({ calls: both })
  const child = await start(['--yolo', 'do it'], { home: it.home, env: it.env })
  child.stdin.end()
  const done = ended(child)
  await it.stub.got('tools/call')
  const [{ pid } = { pid: 0 }] = it.stub.calls()
  child.kill('SIGINT')
  t.match(await done, { code: 130 })
  t.ok(await groupIsGone(pid))
  t.ok(it.stub.seen().some(({ method }) => method === 'notifications/cancelled'))
  const { code } = await it.turn(['-c', '--yolo'])
  t.equal(code, 0)
  const said = it.model.requests
    .at(-1)
    ?.body.messages.filter((each: Message) => each.role === 'tool')
  t.match(said, [{ content: /now 20\d\d/ }, { content: /interrupted/ }])
})

// --- what a hostile server or project would try ---

t.test('a server runs where it was added, whatever folder tai runs in', async (t) => {
  const home = folder()
  const [own, other] = [upstream(home, DELETES), folder()]
  const env = { PATH: process.env['PATH'] ?? '' }
  const words = [
    'sh',
    '-c',
    `pwd > "${home}/where"; exec "$0" "$@"`,
    own.entry.command ?? '',
    ...own.entry.args,
  ]
  const added = await tai(['mcp', 'add', '--yes', '-P', 'default', 'here', '--', ...words], {
    home,
    env,
  })
  t.equal(added.code, 0, added.err)
  await tai(['mcp', 'call', 'here', 'delete_all'], { home, env, cwd: other })
  t.equal(readFileSync(join(home, 'where'), 'utf8').trim(), realpathSync(home))
})

t.test('the session key of a question about a server allows that call and no other', async (t) => {
  if (!ptyAvailable) return void t.comment('there are no pseudo-terminals here')
  const it = await scene(t, { tools: [toolNamed('run')] })
  const [git, more] = [{ command: 'git status' }, { command: 'git status', host: 'prod' }]
  it.model.push(call('mcp_awk_run', git), call('mcp_awk_run', more), { text: 'done' })
  const env = { ...it.env, HOME: it.home, TAI_HOME: `${it.home}/.tai` }
  const asks = /wants to run[^]*exactly this call[^]*\[y\/.*\]/
  const steps = [
    { wait: asks, type: 's\r' },
    { wait: asks, type: 'n\r' },
  ]
  await runInPty(`'${await binary()}' 'do it'`, steps, { env })
  t.equal(it.stub.calls().length, 1)
})

t.test('with --tools too, a server that is disabled meanwhile is called no more', async (t) => {
  const it = await scene(t, { tools: ['ping', 'other'].map((name) => toolNamed(name)) })
  const flags = ['--yolo', '--tools', 'mcp_awk_ping,mcp_disable']
  const disable = call('mcp_disable', { server: 'awk' })
  const [ping, other] = [call('mcp_awk_ping'), call('mcp_awk_other')]
  const { offered, replies } = await it.turn(flags, ping, other, disable, ping)
  t.strictSame(
    offered[0]?.map(({ name }) => name),
    ['mcp_disable', 'mcp_awk_ping'],
  )
  t.match(replies[2]?.content, /no tool named mcp_awk_other/)
  t.match(replies[4]?.content, /mcp_awk_ping/)
  t.equal(it.stub.calls().length, 1)
})
