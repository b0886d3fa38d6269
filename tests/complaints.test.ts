// What people complain of in other clients (lines 22 to 38 of complaints.md), each by its number and
// as they meet it: a server, a model, the built binary. Those not here are tested where they live:
// 26 in dialects, 29 in kill, 31 in rpc, 35 in httpleg, 37 in stdio.
import t from 'tap'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'
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
