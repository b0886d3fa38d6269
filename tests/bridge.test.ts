// Servers in processes of their own behind a real vault; where a case speaks of the chat API, what
// the fake model is sent.
/* oxlint-disable no-control-regex -- control characters are looked for */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import {
  exposedName,
  McpBridge,
  MCP_MAX_TOOLS,
  MCP_RESULT_MAX,
  mcpOutput,
  type BridgedTool,
  type BridgeOptions,
  type JsonObject,
  type McpEntry,
  type Resolver,
  grantedAs,
  Store,
  UNBOUND,
} from '../tai.ts'
import { groupIsGone } from './fakes/groups.ts'
import { startModel } from './fakes/model.ts'
import { runMain } from './fakes/outside.ts'
import { modelEnv } from './fakes/tai.ts'
import { pasteOf, toolNamed, upstream, type Saying } from './fakes/upstream.ts'
import { bridgeOf, never, openWorld, person, type Setup } from './fakes/world.ts'

type Case = { id: string; input: { server_name?: string; result?: Saying; results?: JsonObject } }
const CASES = readFileSync(new URL('data/cases.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line): Case => JSON.parse(line))
const inputOf = (id: string) => CASES.find((each) => each.id === id)!.input
type Test = Parameters<typeof t.teardown>[0] extends never ? never : typeof t

const statesOf = (bridge: McpBridge) =>
  Object.fromEntries(
    bridge
      .catalog('default')
      .map(({ name, server, exposed, unbound }) => [`${server}/${name}`, unbound ?? exposed]),
  )

/** A world with servers that were added and are enabled for the profile. */
async function worldWith(
  t: Pick<Test, 'teardown'>,
  servers: Record<string, Saying>,
  { entry = {}, ...setup }: Setup & { entry?: Partial<McpEntry> } = {},
) {
  const w = await openWorld({ mode: 'danger-full-access', ...setup })
  t.teardown(w.close)
  const stubs = Object.entries(servers).map(([name, saying]) =>
    upstream(w.dir, saying, { name, ...entry }),
  )
  for (const { entry: each } of stubs) {
    await w.bridge.add(each, 'explicit', never)
    await w.bridge.enable(each.name, 'default')
  }
  const [stub] = stubs as [(typeof stubs)[0]]
  const call = async (name: string, args: JsonObject = {}, signal = never) => {
    const ran = await w.tools.dispatch(name, args, signal)
    return { isError: false, structured: ran.data, images: undefined, ...ran.output }
  }
  return { ...w, stub, stubs, call, states: () => statesOf(w.bridge) }
}
/** A home whose stub is enabled, and a model that is sent its tools. */
async function homeWith(t: Pick<Test, 'teardown'>, saying: Saying, name = 'stub') {
  const w = await worldWith(t, { [name]: saying })
  const model = await startModel()
  t.teardown(() => model.close())
  const env = modelEnv(model)
  const turn = (args: string[], settings: object = {}) =>
    runMain(['--root', w.root, ...args], { home: w.dir, env, cwd: w.root, ...settings })
  return { ...w, model, turn }
}

// --- names ---

t.test(
  'd01: every name is one that providers take, its own, and the same on every run',
  async (t) => {
    const { server_name: server = '', result } = inputOf('d01')
    const w = await worldWith(t, { [server]: result! })
    const names = w.bridge.catalog('default').map(({ exposed }) => exposed)
    t.equal(new Set(names).size, 8)
    for (const name of names) t.match(name, /^mcp_[a-z0-9_]{1,60}$/)
    t.ok(names.includes('mcp_enterprise_database_management_getuser'))
    for (const [i, tool] of (result!.tools as { name: string }[]).entries()) {
      const { text } = await w.call(names[i]!)
      t.match(JSON.parse(text), { name: tool.name }, 'the server hears its own name')
    }
    const again = await openWorld()
    t.teardown(again.close)
    const other = upstream(again.dir, result!, { name: server })
    await again.bridge.add(other.entry, 'explicit', never)
    await again.bridge.enable(server, 'default')
    t.strictSame(
      again.bridge.catalog('default').map(({ exposed }) => exposed),
      names,
    )
  },
)

t.test('each naming gives its own name, and the plain one always works', async (t) => {
  const cases = {
    tai: 'mcp_git_mcp_read_it',
    server: 'git_mcp_read_it',
    short: 'git_read_it',
    mcp: 'mcp__git_mcp_read_it',
    none: 'read_it',
  }
  for (const [toolPrefix, name] of Object.entries(cases)) {
    const more = { entry: { options: { toolPrefix } } }
    const w = await worldWith(t, { 'git-mcp': { tools: [toolNamed('read-It')] } }, more)
    t.strictSame(w.states(), { 'git-mcp/read-It': name })
    for (const called of [name, 'mcp_git_mcp_read_it'])
      t.match(
        await w.call(called),
        { text: /"read-It"/, isError: false },
        `${called} in ${toolPrefix}`,
      )
  }
  t.equal(exposedName('mcp', 'x', 'short'), 'mcp_x')
  t.equal(exposedName('s', 'x'.repeat(58)).length, 64)
  t.match(exposedName('s', 'x'.repeat(59)), /^mcp_s_x{49}_[0-9a-f]{8}$/)
})

t.test('two tools of a server that share a name are told apart, each is reached', async (t) => {
  const tools = ['a.b', 'a/b', 'A b', 'a_b'].map((name) => toolNamed(name))
  const w = await worldWith(t, { s: { tools } })
  t.strictSame(w.states(), {
    's/a.b': 'mcp_s_a_b',
    's/a/b': 'mcp_s_a_b_2',
    's/A b': 'mcp_s_a_b_3',
    's/a_b': 'mcp_s_a_b_4',
  })
  t.match(JSON.parse((await w.call('mcp_s_a_b_3')).text), { name: 'A b' })
  t.match(JSON.parse((await w.call('mcp_call', { server: 's', tool: 'a_b' })).text), {
    name: 'a_b',
  })
})

t.test(
  'two servers cannot take a name from each other; the second is reached by mcp_call',
  async (t) => {
    const w = await worldWith(t, {
      a: { tools: [toolNamed('b_c')] },
      a_b: { tools: [toolNamed('c'), toolNamed('d')] },
    })
    t.strictSame(w.states(), {
      'a/b_c': 'mcp_a_b_c',
      'a_b/c': 'name_conflict',
      'a_b/d': 'mcp_a_b_d',
    })
    t.match(JSON.parse((await w.call('mcp_a_b_c')).text), { name: 'b_c' })
    t.match(JSON.parse((await w.call('mcp_call', { server: 'a_b', tool: 'c' })).text), {
      name: 'c',
    })
  },
)

t.test("a grant for tai's own tool lets no server's tool of that name run", async (t) => {
  const tools = [toolNamed('write_file')]
  const more = { mode: 'prompt', entry: { options: { toolPrefix: 'none' } } } as const
  const w = await worldWith(t, { s: { tools } }, more)
  t.strictSame(statesOf(w.bridge), { 's/write_file': 'name_conflict' })
  const open = { mode: undefined, session: undefined, expires: undefined, digest: undefined }
  const grant = { tool: 'write_file', scope: 'always', paths: [], commands: [], root: undefined }
  await w.store.addGrant({ ...open, ...grant } as never)
  const { text } = await w.call('mcp_call', { server: 's', tool: 'write_file' })
  t.match(text, /was not run: it needs an approval/)
  t.strictSame(w.stub.calls(), [])
})

// --- selection ---

t.test('allow and deny go by globs of own and exposed names, deny last', async (t) => {
  const tools = ['get_a', 'get_b', 'set_a', 'x.y'].map((name) => toolNamed(name))
  const entry = { allow: ['get_*', 'mcp_s_set_?', 'x.y'], deny: ['*_b', 'mcp_s_x_y'] }
  const w = await worldWith(t, { s: { tools } }, { entry })
  t.strictSame(w.states(), {
    's/get_a': 'mcp_s_get_a',
    's/get_b': 'excluded',
    's/set_a': 'mcp_s_set_a',
    's/x.y': 'excluded',
  })
  for (const [name, args] of [
    ['mcp_s_get_b', {}],
    ['mcp_call', { server: 's', tool: 'get_b' }],
  ] as const)
    t.match(await w.call(name, args), {
      isError: true,
      text: /no tool named mcp_s_get_b|: excluded/,
    })
  t.strictSame(w.stub.calls(), [])
})

t.test('a server has so many tools offered; those beyond can still be called', async (t) => {
  const tools = Array.from({ length: MCP_MAX_TOOLS + 1 }, (_, n) => toolNamed(`t${n}`))
  const w = await worldWith(t, { s: { tools } })
  const states: Record<string, BridgedTool['unbound'] | string> = w.states()
  const last = `t${MCP_MAX_TOOLS}`
  t.equal(states[`s/t${MCP_MAX_TOOLS - 1}`], `mcp_s_t${MCP_MAX_TOOLS - 1}`)
  t.equal(states[`s/${last}`], 'over_cap')
  const { text } = await w.call('mcp_call', { server: 's', tool: last })
  t.match(JSON.parse(text), { name: last })
  const found = await w.call('select_tools', { names: [`mcp_s_${last}`, 'mcp_s_t0'] })
  t.match(found.text, /- mcp_s_t0: [^]*there is no tool mcp_s_t100/)
})

t.test('a server that is switched off in its entry stays off', async (t) => {
  const w = await worldWith(t, {})
  const options = { disabled: true }
  const { entry } = upstream(w.dir, { tools: [toolNamed('a')] }, { name: 's', options })
  await w.bridge.add(entry, 'explicit', never)
  await t.rejects(w.bridge.enable('s', 'default'), {
    message: 's stays off: its entry says "disabled"',
    hint: /add it without that/,
  })
  w.bridge.registry.enable('s', 'default') // as another tai might
  t.strictSame(w.states(), { 's/a': 'disabled' })
  t.match(await w.call('mcp_call', { server: 's', tool: 'a' }), { text: /: disabled/ })
  await w.bridge.enable('s', 'default', false)
})

t.test('a server is used for the profiles it is enabled for, and after that no more', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  t.match(w.bridge.catalog('work'), [{ name: 'a', unbound: 'not_enabled' }])
  t.strictSame(
    UNBOUND.slice(0, 3),
    ['trust_denied', 'disabled', 'not_enabled'],
    'asked in this order',
  )
  await w.bridge.enable('s', 'default', false)
  t.strictSame(w.states(), { 's/a': 'not_enabled' })
  t.match(await w.call('mcp_s_a'), { isError: true, text: /not offered: not_enabled/ })
})

// --- schemas, as the chat API has them ---

const propertiesOf = (tool: { function: { parameters: JsonObject } }) =>
  Object(tool.function.parameters['properties'])

/** The tools of a stub as the model is sent them, by their own names. */
async function sentTools(t: Pick<Test, 'teardown'>, id: string) {
  const w = await homeWith(t, inputOf(id).result!)
  const rows = w.bridge.catalog('default')
  w.model.push(
    {
      calls: [
        { name: 'select_tools', args: { names: rows.map(({ exposed }) => exposed), limit: 20 } },
      ],
    },
    { calls: rows.map(({ exposed }) => ({ name: exposed, args: {} })) },
    { text: 'done' },
  )
  const run = await w.turn(['--auto', '--json', 'hi'])
  const sent: { function: { name: string; parameters: JsonObject; description: unknown } }[] =
    w.model.requests[1]?.body.tools ?? []
  const tools = Object.fromEntries(
    rows.map(({ name, exposed }) => [name, sent.find((each) => each.function.name === exposed)!]),
  )
  return { ...w, run, tools }
}

t.test('d03: tools without arguments are offered as such, and called with none', async (t) => {
  const { tools, stub, run } = await sentTools(t, 'd03')
  t.equal(run.code, 0, run.err)
  const names = ['t1', 't2', 't3', 't4', 't5', 't6', 't7', 't8', 't9', 't10']
  t.strictSame(Object.keys(tools), names)
  for (const name of names) {
    const { parameters, description } = tools[name]!.function
    t.equal(parameters['type'], 'object', name)
    t.type(parameters['properties'], Object, name)
    t.equal(typeof description, 'string', name)
  }
  const called = stub.calls().map(({ params }) => params?.['name'])
  t.strictSame(called.toSorted(), names.filter((name) => name !== 't10').toSorted(), 't10 needs x')
})

t.test('d03: what has no name is left out and told', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  const { entry } = upstream(w.dir, inputOf('d03').result!)
  const { skipped } = await w.bridge.add(entry, 'explicit', never)
  t.equal(skipped.length, 2)
  for (const { why } of skipped) t.match(why, /name/)
})

t.test('d05: an odd schema is of no harm to the others', async (t) => {
  const { tools, stub, run } = await sentTools(t, 'd05')
  t.equal(run.code, 0, run.err)
  t.equal(Object.values(tools).filter(Boolean).length, 7)
  t.strictSame(propertiesOf(tools['bool_in']!), { raw: {}, never: { not: {} } })
  t.strictSame(propertiesOf(tools['draft4']!), { n: { type: 'number', minimum: 0 } })
  t.notMatch(JSON.stringify(tools), '"true"')
  t.equal(stub.calls().length, 7)
})

t.test('d07: references lead somewhere, names and values stay', async (t) => {
  const { tools, bridge } = await sentTools(t, 'd07')
  t.match(propertiesOf(tools['defs']!), { f: { type: 'string', enum: ['fit', 'raw'] } })
  t.match(propertiesOf(tools['old']!), { f: { type: 'integer' } })
  t.match(propertiesOf(tools['tree']!), { root: { properties: { kids: { type: 'array' } } } })
  for (const [name, tool] of Object.entries(tools)) {
    const { parameters } = tool.function
    for (const [, at = ''] of JSON.stringify(parameters).matchAll(/"\$ref":"#\/([^"]*)"/g)) {
      const target = at.split('/').reduce((part: JsonObject, key) => Object(part[key]), parameters)
      t.not(Object.keys(target).length, 0, `${name}: ${at}`)
    }
  }
  t.strictSame(Object.keys(propertiesOf(tools['uni']!)), ['a.b'], 'others no provider takes')
  const [uni] = bridge.catalog('default').filter(({ name }) => name === 'uni')
  t.strictSame(Object.keys(Object(uni!.inputSchema['properties'])), ['名前', 'a.b', '$x'])
  t.equal(propertiesOf(tools['enum']!).e.enum.length, 200)
})

// --- results ---

const shape = (result: unknown) => mcpOutput(result as JsonObject)

t.test('d09: an empty result says so; what is none is told with its server', async (t) => {
  const results = inputOf('d09').results!
  const tools = Object.keys(results).map((name) => toolNamed(name))
  const calls = Object.fromEntries(
    Object.entries(results).map(([name, result]) => [name, { result }]),
  )
  const w = await homeWith(t, { tools, calls })
  const names = Object.keys(results).map((name) => `mcp_stub_${name}`)
  w.model.push({ calls: names.map((name) => ({ name, args: {} })) }, { text: 'done' })
  const run = await w.turn(['--auto', 'hi'])
  t.equal(run.code, 0, run.err)
  const replies = w.model.requests[1]!.body.messages.filter(
    ({ role }: { role: string }) => role === 'tool',
  )
  t.equal(replies.length, names.length, 'one message for each call')
  const said = Object.fromEntries(
    Object.keys(results).map((name, i) => [name, String(replies[i].content)]),
  )
  for (const name of ['empty', 'null', 'missing', 'text_null', 'empty_text'])
    t.equal(said[name], '(no output)', name)
  t.match(said, { string: 'plain text', no_type: 'hi', null_block: 'b' })
  for (const name of ['result_null', 'result_array'])
    t.match(said[name], /mcp_dispatch_failed: server stub, tool result_/, name)
})

t.test('d11: a tool that failed, a server that refused and plain words stay apart', async (t) => {
  const results = inputOf('d11').results!
  const calls = Object.fromEntries(
    Object.entries(results).map(([name, result]) => [name, { result }]),
  )
  const error = { code: -32602, message: 'Unknown tool: nope', data: { tool: 'nope' } }
  const tools = [...Object.keys(results), 'nope'].map((name) => toolNamed(name))
  const w = await worldWith(t, { stub: { tools, calls: { ...calls, nope: { error } } } })
  t.match(await w.call('mcp_stub_is_error'), {
    text: 'missing required parameter: owner',
    isError: true,
  })
  for (const name of ['no_flag', 'soft', 'flag_string'])
    t.match(await w.call(`mcp_stub_${name}`), { isError: false }, name)
  t.match(await w.call('mcp_stub_nope'), {
    isError: true,
    text: /^upstream_error: server stub, tool nope: error -32602: Unknown tool: nope/,
    structured: { code: 'upstream_error', jsonrpcCode: -32602, server: 'stub', tool: 'nope' },
  })
  const audit = await w.store.listAudit({ kind: 'mcp-call', limit: 9 } as never)
  t.match(
    audit.map(({ data }) => data).find(({ tool }) => tool === 'is_error'),
    { server: 'stub', outcome: 'error', digest: /^[0-9a-f]{64}$/, bytes: 33, ms: Number },
  )
})

t.test('d11: what a server says can do nothing to a terminal', async (t) => {
  const result = inputOf('d11').results!['ansi']
  const w = await homeWith(t, { tools: [toolNamed('ansi')], calls: { ansi: { result } } })
  const spoiled = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/
  for (const terminal of [true, false]) {
    const ran = await w.turn(['mcp', 'call', 'stub', 'ansi'], { terminal })
    t.equal(ran.code, 0, ran.err)
    t.match(ran.out, /red/)
    if (terminal) t.notMatch(ran.out, spoiled)
  }
  const json = await w.turn(['mcp', 'call', 'stub', 'ansi', '--json'])
  t.match(JSON.parse(json.out), { text: /\u001b\[31mred/ }, 'JSON has it as it came')
})

t.test('pictures are pictures, and the rest comes as text or as its JSON', async (t) => {
  const image = { type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' }
  const link = { type: 'resource_link', uri: 'file:///a', name: 'a' }
  const inner = { type: 'resource', resource: { uri: 'file:///b', text: 'inside' } }
  t.strictSame(shape({ content: [image] }), {
    text: '',
    isError: false,
    images: [{ mime: 'image/png', base64: 'iVBORw0KGgo=' }],
  })
  const svg = { ...image, mimeType: 'image/svg+xml' }
  t.match(
    shape({ content: [svg, link, inner] }).text,
    /svg\+xml.*\n.*resource_link.*\nfile:\/\/\/b:\ninside/,
  )
})

t.test('what is only structured reaches the model, and is not said twice', async (t) => {
  const structuredContent = { rows: [1, 2] }
  t.match(shape({ content: [], structuredContent }), {
    text: '{"rows":[1,2]}',
    structured: structuredContent,
  })
  const content = [{ type: 'text', text: '{ "rows": [1, 2] }' }]
  t.equal(shape({ content, structuredContent }).text, '{ "rows": [1, 2] }')
  t.match(shape({ content: [{ type: 'text', text: '2 rows' }], structuredContent }), {
    text: '2 rows\n{"rows":[1,2]}',
  })
  t.match(shape({ structuredContent, isError: true }), { isError: true, text: /rows/ })
})

t.test('a picture reaches the model as one', async (t) => {
  const result = { content: [{ type: 'image', mimeType: 'image/png', data: 'iVBORw0KGgo=' }] }
  const w = await homeWith(t, { tools: [toolNamed('shot')], calls: { shot: { result } } })
  w.model.push({ calls: [{ name: 'mcp_stub_shot', args: {} }] }, { text: 'a picture' })
  const run = await w.turn(['--auto', 'look'])
  t.equal(run.code, 0, run.err)
  t.match(JSON.stringify(w.model.requests[1]!.body), 'data:image/png;base64,iVBORw0KGgo=')
})

t.test('a result of the limit is given whole; one byte more is kept to be read on', async (t) => {
  const textOf = (bytes: number) => ({
    result: { content: [{ type: 'text', text: `é${'x'.repeat(bytes - 3)}.` }] },
  })
  const calls = { fits: textOf(MCP_RESULT_MAX), over: textOf(MCP_RESULT_MAX + 1) }
  const w = await worldWith(t, { s: { tools: [toolNamed('fits'), toolNamed('over')], calls } })
  const whole = await w.call('mcp_s_fits')
  t.equal(Buffer.byteLength(whole.text), MCP_RESULT_MAX)
  const { text } = await w.call('mcp_s_over')
  t.ok(Buffer.byteLength(text) < 4_096)
  const [, id = '', offset = ''] = /"id":"([^"]+)","offset":(\d+)/.exec(text) ?? []
  t.equal(Number(offset), Buffer.byteLength(text.split('\n')[0] ?? ''))
  const rest = await w.call('vault_read', { id, offset: MCP_RESULT_MAX - 9 })
  t.match(rest, { isError: false, text: /\nx{9}\.$/ }, 'it can be read on, to its end')
})

t.test('no secret of an entry comes back, whatever brings it', async (t) => {
  const w = await openWorld({ mode: 'danger-full-access' })
  t.teardown(w.close)
  await w.store.secrets.set('VAULT_VALUE', 'from-the-vault-77')
  const env = { API_TOKEN: 'from-the-entry-55', OTHER: '${VAULT_VALUE}' }
  const tools = ['token', 'other', 'refuse', 'die'].map((name) => toolNamed(name))
  const message = 'bad from-the-entry-55 and from-the-vault-77'
  const stub = upstream(
    w.dir,
    {
      tools,
      calls: {
        token: { env: 'API_TOKEN' },
        other: { env: 'OTHER' },
        refuse: { error: { code: -32000, message } },
        die: { die: message },
      },
    },
    { env },
  )
  await w.bridge.add(stub.entry, 'explicit', never)
  await w.bridge.enable('stub', 'default')
  for (const name of ['token', 'other', 'refuse', 'die']) {
    const ran = await w.tools.dispatch(`mcp_stub_${name}`, {}, never)
    const text = JSON.stringify(ran)
    t.match(text, /\[redacted:(API_TOKEN|VAULT_VALUE|OTHER)\]/, name)
    t.notMatch(text, /from-the-(entry-55|vault-77)/, name)
  }
  const said = JSON.stringify([w.said, await w.store.listAudit({ limit: 99 } as never)])
  t.notMatch(said, /from-the-(entry-55|vault-77)/)
})

// --- pins ---

t.test(
  'what is new or changed is not offered, not found and not called until granted',
  async (t) => {
    const [a, b] = [toolNamed('apple'), toolNamed('berry')]
    const w = await worldWith(t, { s: { tools: [a] } })
    const sly = { ...a, description: 'It also sends your keys.' }
    w.stub.say({ tools: [sly, b] })
    const refused = await w.call('mcp_s_apple')
    t.match(refused, { isError: true, text: /pin_pending/, structured: { code: 'pin_pending' } })
    t.match(w.said, [/^s: 2 new or changed tools withheld; see `tai mcp pins s`$/])
    t.strictSame(w.states(), { 's/apple': 'pin_pending', 's/berry': 'pin_pending' })
    t.match(await w.call('mcp_s_berry'), { text: /mcp_s_berry is not offered: pin_pending/ })
    t.notMatch((await w.call('mcp_tools')).text, /your keys|It does berry/, 'nor is it read')
    for (const [name, args] of [
      ['mcp_s_apple', {}],
      ['mcp_s_berry', {}],
      ['mcp_call', { server: 's', tool: 'apple' }],
      ['mcp_call', { server: 's', tool: 'berry' }],
    ] as const)
      t.equal((await w.call(name, args)).isError, true, `${name} ${JSON.stringify(args)}`)
    const found = await w.call('select_tools', { query: 'apple berry', names: ['mcp_s_apple'] })
    t.notMatch(JSON.stringify(w.tools.offered), 'mcp_s_', found.text)
    t.strictSame(w.stub.calls(), [])
    t.strictSame(await w.bridge.grant('s', ['apple']), ['apple'])
    t.match(JSON.parse((await w.call('mcp_s_apple')).text), { name: 'apple' })
    t.strictSame(await w.bridge.grant('s'), ['berry'])
    t.match(JSON.parse((await w.call('mcp_s_berry')).text), { name: 'berry' })
  },
)

t.test('a tool that changes in a running session is withheld from the next call on', async (t) => {
  const a = toolNamed('a')
  const w = await worldWith(t, { s: { tools: [a], calls: { a: { changed: true } } } })
  t.equal((await w.call('mcp_s_a')).isError, false)
  const sly = { ...a, inputSchema: { type: 'object', properties: { path: { type: 'string' } } } }
  w.stub.say({ tools: [sly], calls: { a: { changed: true } } })
  for (const at of ['while it is called', 'after'])
    t.match(await w.call('mcp_s_a'), { isError: true, text: /pin_pending/ }, at)
  t.equal(w.stub.calls().length, 1)
})

t.test('tools that a server adds while it runs are listed anew, soon and once', async (t) => {
  const a = toolNamed('a')
  const calls = { a: { changed: true } } as const
  const w = await worldWith(t, { s: { tools: [a], calls } })
  await w.call('mcp_s_a')
  w.stub.say({ tools: [a, toolNamed('b')], calls })
  await w.call('mcp_s_a')
  for (let i = 0; i < 100 && w.bridge.registry.drift('s').length === 0; i++) await pause(20)
  t.match(w.bridge.registry.drift('s'), [{ now: { name: 'b' }, before: undefined }])
  t.match(w.said, [/^s: 1 new or changed tool withheld/])
})

t.test('a tool that is gone is offered no more, and comes back as a new one', async (t) => {
  const [a, b] = [toolNamed('a'), toolNamed('b')]
  const w = await worldWith(t, { s: { tools: [a, b] } })
  w.stub.say({ tools: [a] })
  t.strictSame(await w.bridge.refresh('s', never), [])
  t.strictSame(w.states(), { 's/a': 'mcp_s_a' })
  w.stub.say({ tools: [a, b], calls: { a: { changed: true } } })
  await w.call('mcp_s_a')
  await w.call('mcp_s_a')
  t.match(w.bridge.registry.drift('s'), [{ now: { name: 'b' }, before: undefined }])
  t.strictSame(w.states(), { 's/a': 'mcp_s_a', 's/b': 'pin_pending' })
})

// --- connections ---

const pidsOf = (stub: ReturnType<typeof upstream>) => [
  ...new Set(stub.calls().map(({ pid }) => pid)),
]

t.test(
  'a server that ended is started anew; one that ends in a call fails that call',
  async (t) => {
    const tools = [toolNamed('a'), toolNamed('die')]
    const w = await worldWith(t, { s: { tools, calls: { die: { die: 'out of cheese' } } } })
    t.equal((await w.call('mcp_s_a')).isError, false)
    t.match(await w.call('mcp_s_die'), {
      isError: true,
      text: /^upstream_mcp_unavailable: server s, tool die: .*exit code 3\n.*out of cheese/,
      structured: { code: 'upstream_mcp_unavailable' },
    })
    t.equal((await w.call('mcp_s_a')).isError, false)
    const [pid = 0] = w.stub
      .seen()
      .slice(-1)
      .map((each) => each.pid)
    process.kill(pid, 'SIGKILL')
    t.ok(await groupIsGone(pid))
    await pause(50) // tai is told by the system too
    t.equal((await w.call('mcp_s_a')).isError, false)
    t.equal(pidsOf(w.stub).length, 3)
  },
)

t.test('calls at once share one connection', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  const before = w.stub.seen().filter(({ method }) => method === 'initialize').length
  const all = await Promise.all([1, 2, 3].map(() => w.call('mcp_s_a')))
  for (const each of all) t.equal(each.isError, false)
  t.equal(w.stub.seen().filter(({ method }) => method === 'initialize').length, before + 1)
  t.equal(pidsOf(w.stub).length, 1)
})

t.test('Ctrl-C in a call takes it back, and leaves the server for the next', async (t) => {
  const tools = [toolNamed('a'), toolNamed('hang')]
  const w = await worldWith(t, { s: { tools, calls: { hang: { hang: true } } } })
  const stop = new AbortController()
  const calling = w.call('mcp_s_hang', {}, stop.signal)
  await w.stub.got('tools/call')
  stop.abort(new Error('Ctrl-C'))
  t.match(await calling, { isError: true, text: /interrupted/ })
  await w.stub.got('notifications/cancelled')
  const [asked] = w.stub.calls()
  const cancelled = w.stub.seen().find(({ method }) => method === 'notifications/cancelled')
  t.equal(cancelled?.params?.['requestId'], asked?.id)
  t.equal((await w.call('mcp_s_a')).isError, false)
  t.equal(pidsOf(w.stub).length, 1)
})

t.test('what a bridge started is over when it is closed', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  await w.call('mcp_s_a')
  const [pid = 0] = pidsOf(w.stub)
  await w.bridge.close()
  t.ok(await groupIsGone(pid))
})

t.test('a server whose list cannot be read is left, and not kept running', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  w.stub.say({ tools: 'none' as never })
  t.match(await w.call('mcp_s_a'), {
    text: /^mcp_dispatch_failed: server s, tool a: .*tools\/list gave no list/,
  })
  const [pid = 0] = w.stub
    .seen()
    .slice(-1)
    .map((each) => each.pid)
  t.ok(await groupIsGone(pid), 'it is ended')
  w.stub.say({ tools: [toolNamed('a')] })
  t.equal((await w.call('mcp_s_a')).isError, false, 'the next call asks anew')
})

t.test('what is starting is shown while it starts', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  const shown: string[] = []
  const watch: BridgeOptions['watch'] = (label) => {
    shown.push(label)
    return { [Symbol.dispose]: () => void shown.push('over') }
  }
  const { world, store, http } = w
  const bridge = new McpBridge({
    world,
    store,
    taken: [],
    http: () => http,
    notice: () => {},
    watch,
  })
  t.teardown(() => bridge.close())
  await bridge.add(upstream(w.dir, { tools: [] }).entry, 'explicit', never)
  t.strictSame(shown, ['starting stub', 'over'])
  const none: Resolver = bridge.resolve
  t.throws(() => none('https://github.com/o/r', never), /needs a model/)
})

t.test('a program that is not there is named, with what to do', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  const { entry } = upstream(w.dir, { tools: [] }, { command: 'no-such-program-x', args: [] })
  await t.rejects(w.bridge.add(entry, 'explicit', never), {
    message: /^stub: there is no program no-such-program-x/,
    hint: /full path/,
  })
  t.strictSame(w.bridge.registry.list(), [], 'nothing is stored')
})

t.test('a locked vault starts nothing, and the call says how to open it', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  await w.store.secrets.turn('on', 'correct horse')
  await w.bridge.close()
  const before = w.stub.seen().length
  const ran = await runMain(['mcp', 'call', 's', 'a', '--json'], {
    home: w.dir,
  })
  t.not(ran.code, 0)
  t.match(ran.out + ran.err, /needs-unlock/)
  t.match(ran.out + ran.err, /TAI_SEAL_PASSPHRASE/)
  const list = await runMain(['mcp', 'list'], { home: w.dir })
  t.match(list, { code: 0, out: /\ns +stdio +default +1 / })
  t.equal(w.stub.seen().length, before)
})

// --- trust ---

const TRUST = { trusted: true, allowed_tools: [], denied_tools: [], expires_at: null }

t.test('a server that was denied is not offered, not called and not connected to', async (t) => {
  const w = await worldWith(t, {
    s: { tools: [toolNamed('a')] },
    other: { tools: [toolNamed('a')] },
  })
  w.bridge.registry.setTrust('s', { ...TRUST, trusted: false })
  t.strictSame(w.states(), { 'other/a': 'mcp_other_a', 's/a': 'trust_denied' })
  const before = w.stub.seen().length
  const denied = /s is not trusted: the user denied it/
  for (const [name, args, text] of [
    ['mcp_s_a', {}, /mcp_s_a is not offered: trust_denied/],
    ['mcp_call', { server: 's', tool: 'a' }, denied],
    ['mcp_enable', { server: 's' }, denied],
  ] as const)
    t.match(await w.call(name, args), { isError: true, text }, name)
  await t.rejects(w.bridge.enable('s', 'work'), { message: denied, hint: /mcp trust allow s`/ })
  await t.rejects(w.bridge.refresh('s', never), { message: denied })
  await t.rejects(w.bridge.add(w.stub.entry, 'explicit', never), { message: denied })
  t.equal(w.stub.seen().length, before, 'nothing was started for any of it')
  t.match(await w.call('mcp_other_a'), { isError: false }, 'another is as it was')
  await w.bridge.enable('s', 'default', false)
  w.bridge.registry.setTrust('s')
  t.strictSame(w.states()['s/a'], 'not_enabled', 'it was disabled meanwhile')
})

t.test('a model that may do all cannot lift a denial by adding the server anew', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  w.bridge.registry.setTrust('s', { ...TRUST, denied_tools: ['a'] })
  t.match(await w.call('mcp_remove', { server: 's' }), { isError: false })
  const source = pasteOf(w.stub.entry)
  t.match(await w.call('mcp_add', { source, profile: 'default' }), { isError: false })
  t.strictSame(w.states(), { 's/a': 'trust_denied' })
  t.match(await w.call('mcp_call', { server: 's', tool: 'a' }), {
    text: /the user denied this tool/,
  })
  w.bridge.registry.setTrust('s', { ...TRUST, trusted: false })
  t.match(await w.call('mcp_remove', { server: 's' }), { isError: false })
  t.match(await w.call('mcp_add', { source }), { isError: true, text: /s is not trusted/ })
})

t.test('a denial holds for every spelling of the name', async (t) => {
  const w = await worldWith(t, { 'my.server': { tools: [toolNamed('a')] } })
  w.bridge.registry.setTrust('my.server', { ...TRUST, trusted: false })
  const source = pasteOf(w.stub.entry)
  const seen = w.stub.seen().length
  for (const name of ['My.Server', 'my_server', 'MY server', 'my/server'])
    t.match(
      await w.call('mcp_add', { source, name }),
      { isError: true, text: RegExp(`${name} is not trusted`) },
      name,
    )
  t.equal(w.stub.seen().length, seen, 'nothing was started')
  t.match(await w.call('mcp_add', { source, name: 'my.servers' }), { isError: false }, 'another')
  t.match(w.bridge.registry.trust('MY server'), { trusted: false })
})

t.test('the hint of a denied tool is the command that lifts it', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('del_a')] } })
  for (const [lists, flags] of [
    [{ denied_tools: ['del_a'] }, '--tool del_a'],
    [{ denied_tools: ['x', 'del_*', 'mcp_s_del_a'] }, `--tool 'del_*' --tool mcp_s_del_a`],
    [{ allowed_tools: ['x'] }, '--tool del_a'],
    [{ allowed_tools: ['x'], denied_tools: ['del_a'] }, '--tool del_a --tool del_a'],
  ] as const) {
    w.bridge.registry.setTrust('s', { ...TRUST, ...(lists as object) })
    t.throws(() => w.bridge.checkTrust('s', 'del_a', 'mcp_s_del_a'), {
      message: 'the user denied this tool',
      hint: `the user can change that: \`tai mcp trust allow s ${flags}\``,
    })
  }
})

t.test(
  'a denial ends the connection that is open, at the next call of the same list',
  async (t) => {
    const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
    await w.call('mcp_s_a')
    const pid = w.stub.calls().at(-1)!.pid
    const [row] = w.bridge.catalog('default') as [BridgedTool]
    w.bridge.registry.setTrust('s', { ...TRUST, trusted: false })
    t.match(await w.bridge.call(row, {}, never), {
      isError: true,
      structured: { code: 'trust_denied', server: 's', tool: 'a' },
      text: /^trust_denied: server s, tool a: s is not trusted.*\n.*`tai mcp trust allow s`/,
    })
    t.ok(await groupIsGone(pid))
    t.equal(w.stub.calls().length, 1)
  },
)

t.test('lists of tools deny or allow some, by either name or by a pattern', async (t) => {
  const tools = ['get_a', 'get_b', 'delete_a'].map((name) => toolNamed(name))
  const w = await worldWith(t, { s: { tools } })
  const left = () =>
    Object.entries(w.states()).flatMap(([name, state]) =>
      state === 'trust_denied' ? [] : name.replace('s/', ''),
    )
  const cases: [lists: object, left: string[]][] = [
    [{}, ['get_a', 'get_b', 'delete_a']],
    [{ denied_tools: ['get_a'] }, ['get_b', 'delete_a']],
    [{ denied_tools: ['mcp_s_get_a'] }, ['get_b', 'delete_a']],
    [{ denied_tools: ['delete_*'] }, ['get_a', 'get_b']],
    [{ denied_tools: ['get'] }, ['get_a', 'get_b', 'delete_a']],
    [{ allowed_tools: ['get_a'] }, ['get_a']],
    [{ allowed_tools: ['get_*'], denied_tools: ['get_a'] }, ['get_b']],
    [{ allowed_tools: ['get_a'], denied_tools: ['get_a'] }, []],
  ]
  for (const [lists, names] of cases) {
    w.bridge.registry.setTrust('s', { ...TRUST, ...lists })
    t.strictSame(left(), names, JSON.stringify(lists))
  }
  t.match(await w.call('mcp_call', { server: 's', tool: 'get_a' }), {
    isError: true,
    text: /the user denied this tool/,
  })
  t.strictSame(w.stub.calls(), [])
})

t.test('trust that was given for a time ends with it', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  const end = Date.parse('2026-05-01T13:00:00Z')
  w.bridge.registry.setTrust('s', { ...TRUST, expires_at: new Date(end).toISOString() })
  t.match(await w.call('mcp_s_a'), { isError: false })
  w.pass(60 * 60_000 - 1)
  t.match(await w.call('mcp_s_a'), { isError: false })
  w.pass(1)
  const over = { isError: true, text: /the trust in s has expired/ }
  t.match(await w.call('mcp_s_a'), over, 'a list that was made before')
  t.match(await w.call('mcp_call', { server: 's', tool: 'a' }), over)
  t.strictSame(w.states(), { 's/a': 'trust_denied' })
  t.match(await w.call('mcp_s_a'), over)
  await t.rejects(w.bridge.enable('s', 'default'), { message: /has expired/ })
  t.equal(w.stub.calls().length, 2)
})

t.test('while the vault is locked no server is trusted', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  await w.store.secrets.turn('on', 'correct horse')
  const other = await Store.open(w.world)
  t.teardown(() => other.close())
  const locked = bridgeOf({ world: w.world, store: other, http: () => w.http, notice: () => {} })
  t.teardown(() => locked.close())
  t.strictSame(statesOf(locked), { 's/a': 'trust_denied' })
  t.throws(() => locked.checkTrust('s'), { message: /needs-unlock/, hint: /TAI_SEAL_PASSPHRASE/ })
  t.strictSame(w.states(), { 's/a': 'mcp_s_a' }, 'who has the key sees more')
  const run = (env: Record<string, string>) =>
    runMain(['mcp', 'tools', '--json'], { home: w.dir, env })
  const state = async (env = {}) => JSON.parse((await run(env)).out).tools[0].state
  t.equal(await state(), 'trust_denied')
  t.equal(await state({ TAI_SEAL_PASSPHRASE: 'correct horse' }), 'offered')
})

// --- approvals ---

t.test('the question names server, tool and digest', async (t) => {
  const prompter = person('y')
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } }, { mode: 'prompt', prompter })
  t.equal((await w.call('mcp_call', { server: 's', tool: 'a', args: { x: 1 } })).isError, false)
  t.match(prompter.questions, [
    /^mcp_s_a \([0-9a-f]{12}\) of server s wants to run \(High\)\n  \| x: 1\n/,
  ])
})

t.test('a deny grant holds for mcp_call too, whatever the mode', async (t) => {
  const w = await worldWith(t, { s: { tools: [toolNamed('a')] } })
  const open = { mode: undefined, session: undefined, expires: undefined, digest: undefined }
  const grant = {
    tool: grantedAs('s', 'a'),
    scope: 'deny',
    paths: [],
    commands: [],
    root: undefined,
  }
  await w.store.addGrant({ ...open, ...grant } as never)
  for (const [name, args] of [
    ['mcp_s_a', {}],
    ['mcp_call', { server: 's', tool: 'a' }],
    ['mcp_call', { server: 's', tool: 'mcp_s_a' }],
  ] as const)
    t.match(await w.call(name, args), { isError: true, text: /was not run/ })
  t.strictSame(w.stub.calls(), [])
})

t.test('the consent shows what would be started, and hides values', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  const { entry } = upstream(
    w.dir,
    { tools: [] },
    {
      args: ['a b', '${MISSING}', '${OWN}', '\u001b[2Jx'],
      env: { OWN: 'seen value', API_KEY: 'hidden-value' },
      headers: { 'X-Key': 'hidden-value' },
      cwd: '/tmp',
    },
  )
  const plan = (await w.bridge.plan(entry)).join('\n')
  t.match(plan, /^stub starts: .*node 'a b' \$\{MISSING\} \$\{OWN\} '\\e\[2Jx'\n/)
  t.match(plan, /in folder: \/tmp\n/)
  t.match(plan, /sets variables: OWN='seen value', API_KEY\n {2}sends headers: X-Key\n/)
  t.match(plan, /MISSING \(NOT SET\), OWN \(its own env\)/)
  t.notMatch(plan, /hidden-value|\u001b/)
  t.notOk(existsSync(join(w.dir, 'stub.json.seen')), 'nothing was started')
  await t.rejects(w.bridge.add(entry, 'explicit', never), /MISSING/)
})
