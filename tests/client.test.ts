import t from 'tap'
import {
  LinkError,
  MCP_DEPTH_MAX,
  MCP_PAGES_MAX,
  MCP_TOOLS_LISTED,
  McpClient,
  RpcError,
  type JsonObject,
  type McpTool,
} from '../tai.ts'
import { scripted, type Script } from './fakes/scripted.ts'

const HELLO = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'fake', version: '1' },
}
const MODERN = '2026-07-28'

/** A server that greets and lists what it is given. */
const listing = (pages: (params: JsonObject) => JsonObject): Script => ({
  initialize: () => HELLO,
  'tools/list': pages,
})
const open = (script: Script, options = {}) => McpClient.open(scripted(script), options)
const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => t.fail('it did not fail'),
    (error: unknown) => error,
  )

t.test(
  'a server is greeted by name, told when that is done, and asked nothing before',
  async (t) => {
    const transport = scripted(listing(() => ({ tools: [] })))
    const client = await McpClient.open(transport)
    await client.listTools()
    t.strictSame(
      transport.sent.map(({ method }) => method),
      ['initialize', 'notifications/initialized', 'tools/list'],
    )
    t.match(transport.sent[0], {
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'tai' } },
    })
    t.equal(transport.version, '2025-11-25', 'later messages can say what was agreed on')
    await client.close()
    t.equal(transport.closed, 1)
  },
)

t.test(
  'older versions are taken; others, and servers without tools, are left, and closed',
  async (t) => {
    for (const protocolVersion of ['2025-06-18', '2025-03-26', '2024-11-05']) {
      const transport = scripted({ initialize: () => ({ ...HELLO, protocolVersion }) })
      await McpClient.open(transport)
      t.equal(transport.version, protocolVersion)
    }
    const wrong: [JsonObject, RegExp][] = [
      [{ ...HELLO, protocolVersion: '1999-01-01' }, /speaks MCP 1999-01-01/],
      [{ ...HELLO, protocolVersion: 7 }, /speaks MCP 7/],
      [{ ...HELLO, capabilities: {} }, /offers no tools/],
      [{ protocolVersion: '2025-11-25' }, /offers no tools/],
    ]
    for (const [told, words] of wrong) {
      const transport = scripted({ initialize: () => told })
      const error = await failure(McpClient.open(transport))
      t.ok(error instanceof LinkError)
      t.match(error, { kind: 'protocol', message: words })
      t.equal(transport.closed, 1)
    }
  },
)

t.test('tools are read page by page, to the end', async (t) => {
  const names = ['a', 'b', 'c', 'd', 'e']
  const client = await open(
    listing(({ cursor = '0' }) => {
      const at = Number(cursor)
      const more = at + 2 < names.length ? { nextCursor: `${at + 2}` } : {}
      return { tools: names.slice(at, at + 2).map((name) => ({ name })), ...more }
    }),
  )
  const { tools, skipped } = await client.listTools()
  t.strictSame(
    tools.map(({ name }) => name),
    names,
  )
  t.strictSame(skipped, [])
  t.match(tools[0], { description: '', inputSchema: { type: 'object', properties: {} } })
})

t.test(
  'pages without an end are given up, and a cursor that repeats itself is the end',
  async (t) => {
    let page = 0
    const endless = await open(listing(() => ({ tools: [], nextCursor: `${(page += 1)}` })))
    t.match(await failure(endless.listTools()), { kind: 'protocol', message: /pages/ })
    t.equal(page, MCP_PAGES_MAX)
    const round = await open(listing(() => ({ tools: [{ name: 'a' }], nextCursor: 'again' })))
    t.strictSame((await round.listTools()).tools.length, 1)
    t.match(await failure((await open(listing(() => ({ tools: 'none' })))).listTools()), /no list/)
  },
)

t.test('a tool that cannot be used is left out with the reason; the others stay', async (t) => {
  let deep: JsonObject = {}
  for (let i = 0; i < 20_000; i++) deep = { a: deep }
  const header = (name: string, type = 'string') => ({
    type: 'object',
    properties: { x: { type, 'x-mcp-header': name } },
  })
  const client = await open(
    listing(() => ({
      tools: [
        { name: 'good', description: 'fine', inputSchema: { type: 'object' } },
        { name: '' },
        { name: 7 },
        { name: 'deep', inputSchema: deep },
        { name: 'good' },
        { name: 'schema', inputSchema: 'none' },
        { name: 'odd', description: 3 },
        { name: 'h1', inputSchema: header('Bad Name') },
        { name: 'h2', inputSchema: header('X', 'object') },
        { name: 'h3', inputSchema: header('') },
        null,
        'tool',
        { name: 'last' },
      ],
    })),
  )
  const { tools, skipped } = await client.listTools()
  t.strictSame(
    tools.map(({ name }) => name),
    ['good', 'last'],
  )
  t.equal(skipped.length, 11)
  t.match(
    skipped.map(({ name, why }) => `${name}: ${why}`).join('\n'),
    /deep: .*nested[\s\S]*good: .*twice[\s\S]*h1: .*cannot be sent[\s\S]*h2: .*cannot be sent/,
  )
})

const plain: Pick<McpTool, 'name' | 'headers'> = { name: 'tool', headers: new Map() }

t.test(
  'what a call gives comes as it is; what failed stays apart from what was refused',
  async (t) => {
    const results: Record<string, JsonObject> = {
      ok: { content: [{ type: 'text', text: 'x' }], structuredContent: { a: 1 } },
      failed: { content: [], isError: true },
    }
    let deep: JsonObject = {}
    for (let i = 0; i <= MCP_DEPTH_MAX + 1; i++) deep = { a: deep }
    const client = await open({
      initialize: () => HELLO,
      'tools/call': ({ arguments: args }) => {
        const { how } = args as { how: string }
        if (how === 'deep') return { content: deep }
        if (how === 'refused') throw new RpcError(-32042, 'not today', { data: { why: 'monday' } })
        return results[how] ?? {}
      },
    })
    const call = (how: string) => client.callTool(plain, { how })
    t.strictSame(await call('ok'), results['ok'])
    t.strictSame(await call('failed'), results['failed'])
    t.match(await failure(call('refused')), {
      code: -32042,
      message: 'not today',
      data: { why: 'monday' },
    })
    t.match(await failure(call('deep')), { kind: 'protocol', message: /nested too deeply/ })
    t.strictSame(await call('ok'), results['ok'], 'and the next call is answered')
  },
)

t.test('a server that forgot the session is greeted once more, and asked once more', async (t) => {
  let lost = 1
  const transport = scripted({
    initialize: () => HELLO,
    'tools/call': () => {
      if (lost-- > 0) throw new LinkError('session', 'gone')
      return { content: [] }
    },
  })
  const client = await McpClient.open(transport)
  t.strictSame(await client.callTool(plain, {}), { content: [] })
  t.equal(transport.sent.filter(({ method }) => method === 'initialize').length, 2)
  lost = 2
  t.match(await failure(client.callTool(plain, {})), { kind: 'session' })
})

t.test(
  'a server of the stateless era is met as it wants to be, from its answer or its entry',
  async (t) => {
    const modern: Script = {
      initialize: () => {
        throw new RpcError(-32022, 'unsupported', {
          data: { supported: [MODERN], requested: '2025-11-25' },
        })
      },
      'server/discover': () => ({
        capabilities: { tools: {} },
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'new', version: '2' } },
      }),
      'tools/call': ({ name }) =>
        name === 'asks'
          ? { resultType: 'input_required' }
          : { resultType: 'complete', content: [] },
    }
    for (const era of [undefined, 'modern'] as const) {
      const transport = scripted(modern)
      const client = await McpClient.open(transport, { era })
      t.equal(transport.version, MODERN)
      const headers = new Map([
        ['region', 'Region'],
        ['note', 'Note'],
        ['gone', 'Gone'],
      ])
      const args = { region: 'eu-1', note: 'día', gone: null }
      await client.callTool({ name: 'tool', headers }, args)
      t.match(transport.sent.at(-1), {
        method: 'tools/call',
        params: {
          arguments: args,
          _meta: {
            'io.modelcontextprotocol/protocolVersion': MODERN,
            'io.modelcontextprotocol/clientCapabilities': {},
            'io.modelcontextprotocol/clientInfo': { name: 'tai' },
          },
        },
        headers: {
          'Mcp-Method': 'tools/call',
          'Mcp-Name': 'tool',
          'Mcp-Param-Region': 'eu-1',
          'Mcp-Param-Note': '=?base64?ZMOtYQ==?=',
        },
      })
      t.notOk('Mcp-Param-Gone' in (transport.sent.at(-1)?.headers ?? {}))
      t.match(await failure(client.callTool({ ...plain, name: 'asks' }, {})), /asks for input/)
      await client.ping()
      t.equal(transport.sent.at(-1)?.method, 'server/discover', 'there is no ping any more')
      t.notOk(transport.sent.some(({ method }) => method === 'notifications/initialized'))
    }
    const other = scripted({
      initialize: () => {
        throw new RpcError(-32022, 'unsupported', { data: { supported: ['2030-01-01'] } })
      },
    })
    t.match(await failure(McpClient.open(other)), { code: -32022 })
  },
)

t.test(
  'whoever uses its tools hears that they may have changed; other news change nothing',
  async (t) => {
    let changed = 0
    const transport = scripted({ initialize: () => HELLO, ping: () => ({}) })
    const client = await McpClient.open(transport, { changed: () => (changed += 1) })
    transport.say({ method: 'notifications/tools/list_changed' })
    transport.say({ method: 'notifications/message', params: { level: 'info' } })
    await client.ping()
    t.equal(changed, 1)
  },
)

t.test(
  'a list that no one could need is refused; a name that is too long leaves its tool out',
  async (t) => {
    const list = (tools: JsonObject[]) => open(listing(() => ({ tools })))
    const many = Array.from({ length: MCP_TOOLS_LISTED + 1 }, (_, i) => ({ name: `t${i}` }))
    t.match(await failure((await list(many)).listTools()), /over 1000 tools/)
    const fat = Array.from({ length: 3 }, (_, i) => ({
      name: `t${i}`,
      description: 'x'.repeat(4e6),
    }))
    t.match(await failure((await list(fat)).listTools()), /over 1000 tools, or over 10 MB/)
    const odd = await list([{ name: 'n'.repeat(129) }, { name: 'fine' }])
    const { tools, skipped } = await odd.listTools()
    t.strictSame([tools.map(({ name }) => name), skipped.length], [['fine'], 1])
    t.ok(skipped.every(({ name }) => name.length < 200))
  },
)
