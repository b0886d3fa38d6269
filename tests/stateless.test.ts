// MCP 2026-07-28 on the served port: wire.md's rows of the modern era, beside the older one.
import t from 'tap'
import type { JsonObject } from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { META, MODERN } from './fakes/piped.ts'
import { begin, send, serve, type Reply } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'

type Server = Awaited<ReturnType<typeof serve>>
type Asked = {
  params?: JsonObject
  meta?: JsonObject | undefined
  headers?: Record<string, string | undefined>
}

let ids = 100

/** A request as a client of the stateless era sends it, but for what is asked otherwise. */
function ask(server: Server, method: string, asked: Asked = {}): Promise<Reply> {
  const { params = {}, headers = {} } = asked
  const meta = 'meta' in asked ? asked.meta : META
  const name = params['name'] ?? params['uri']
  const usual = {
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': name }),
  }
  const body = {
    jsonrpc: '2.0',
    id: ++ids,
    method,
    params: { ...params, ...(meta && { _meta: meta }) },
  }
  return send(server, { body, headers: { ...usual, ...headers } })
}

const call = (server: Server, name: string, args: JsonObject = {}) =>
  ask(server, 'tools/call', { params: { name, arguments: args } })

const [VERSION_KEY = '', CAPABILITIES_KEY = ''] = Object.keys(META)
const without = (key: string) =>
  Object.fromEntries(Object.entries(META).filter(([name]) => name !== key))

// biome-ignore format: a table
const ROWS: [what: string, method: string, asked: Asked, status: number, body: object][] = [
  ['discover', 'server/discover', {}, 200, { result: { supportedVersions: [MODERN], resultType: 'complete' } }],
  ['a list', 'tools/list', {}, 200, { result: { ttlMs: 3_600_000, cacheScope: 'private' } }],
  ['resources', 'resources/list', {}, 200, { result: { resources: [], ttlMs: 0, cacheScope: 'private' } }],
  ['a call', 'tools/call', { params: { name: 'time_now' } }, 200, { result: { resultType: 'complete', content: [{ type: 'text' }] } }],
  ['a session that is none is no matter', 'tools/list', { headers: { 'mcp-session-id': 'x' } }, 200, { result: {} }],
  ['no clientInfo', 'tools/list', { meta: without('io.modelcontextprotocol/clientInfo') }, 200, { result: {} }],
  ['an encoded name', 'tools/call', { params: { name: 'time_now' },
    headers: { 'mcp-name': `=?base64?${Buffer.from('time_now').toString('base64')}?=` } }, 200, { result: {} }],
  ['an unknown method', 'nope/nope', {}, 404, { error: { code: -32601 } }],
  ['initialize', 'initialize', {}, 404, { error: { code: -32601 } }],
  ['ping', 'ping', {}, 404, { error: { code: -32601 } }],
  ['logging/setLevel', 'logging/setLevel', {}, 404, { error: { code: -32601 } }],
  ['an unknown tool', 'tools/call', { params: { name: 'nope' } }, 200, { error: { code: -32602, data: { tool: 'nope' } } }],
  ['arguments that do not fit', 'tools/call', { params: { name: 'read_file', arguments: { path: 1 } } }, 200,
    { error: { code: -32602, data: { path: '/path' } } }],
  ['an unknown resource', 'resources/read', { params: { uri: 'tai://workspace/x' } }, 200,
    { error: { code: -32602, data: { uri: 'tai://workspace/x' } } }],
  ['no _meta', 'tools/list', { meta: undefined }, 400, { error: { code: -32602 } }],
  ['no version in it', 'tools/list', { meta: without(VERSION_KEY) }, 400, { error: { code: -32602 } }],
  ['no capabilities in it', 'tools/list', { meta: without(CAPABILITIES_KEY) }, 400, { error: { code: -32602 } }],
  ['capabilities that are none', 'tools/list', { meta: { ...META, [CAPABILITIES_KEY]: 7 } }, 400, { error: { code: -32602 } }],
  ['a version to come', 'tools/list', { meta: { ...META, [VERSION_KEY]: '2031-01-01' }, headers: { 'mcp-protocol-version': '2031-01-01' } },
    400, { error: { code: -32022, data: { supported: [MODERN], requested: '2031-01-01' } } }],
  ['no version header', 'tools/list', { headers: { 'mcp-protocol-version': undefined } }, 400, { error: { code: -32020 } }],
  ['another version header', 'tools/list', { headers: { 'mcp-protocol-version': '2025-11-25' } }, 400, { error: { code: -32020 } }],
  ['no method header', 'tools/list', { headers: { 'mcp-method': undefined } }, 400, { error: { code: -32020 } }],
  ['another method header', 'tools/list', { headers: { 'mcp-method': 'TOOLS/LIST' } }, 400, { error: { code: -32020 } }],
  ['no name header', 'tools/call', { params: { name: 'time_now' }, headers: { 'mcp-name': undefined } }, 400, { error: { code: -32020 } }],
  ['another name header', 'tools/call', { params: { name: 'time_now' }, headers: { 'mcp-name': 'file_info' } }, 400, { error: { code: -32020 } }],
  ['a broken encoded name', 'tools/call', { params: { name: 'time_now' }, headers: { 'mcp-name': '=?base64?dGltZV9ub3c?=' } },
    400, { error: { code: -32020 } }],
  ['another uri header', 'resources/read', { params: { uri: 'tai://workspace/x' }, headers: { 'mcp-name': 'tai://workspace/y' } },
    400, { error: { code: -32020 } }],
]

t.test('the stateless era is served to the letter', async (t) => {
  const server = await serve(t, { cwd: folder() })
  for (const [what, method, asked, status, body] of ROWS) {
    const reply = await ask(server, method, asked)
    t.equal(reply.status, status, what)
    t.match(reply.body, { jsonrpc: '2.0', id: ids, ...body }, what)
    t.equal(reply.headers['mcp-session-id'], undefined, what)
    t.equal(reply.headers['content-length'], `${Buffer.byteLength(reply.text)}`, what)
    t.equal(reply.headers['cache-control'], 'no-store', what)
  }
})

t.test('a reply without an id has none to echo, as each era says it', async (t) => {
  const server = await serve(t)
  const modern = { 'mcp-protocol-version': MODERN }
  t.notOk('id' in (await send(server, { body: '{', headers: modern })).body)
  t.equal((await send(server, { body: '{' })).body.id, null)
  const told = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  t.equal((await send(server, { body: told, headers: modern })).status, 202)
})

t.test('both eras at once: one client cannot end the calls of another', async (t) => {
  const server = await serve(t)
  const legacy = await begin(server)
  const slow = call(server, 'shell_exec', { command: 'sleep 0.5; echo done' })
  await new Promise((resolve) => setTimeout(resolve, 100))
  for (let id = ids - 3; id <= ids + 3; id++)
    await send(server, {
      headers: { 'mcp-protocol-version': MODERN },
      body: {
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: id, _meta: META },
      },
    })
  t.match((await legacy.call('time_now')).body, { result: {} })
  t.match((await slow).text, /done/)
})

t.test(
  'what one call starts another finds, and a client that leaves takes its call along',
  async (t) => {
    const server = await serve(t)
    await call(server, 'process_start', { command: 'exec sleep 30' })
    t.match((await call(server, 'process_list')).text, /sleep 30/)
    const stop = new AbortController()
    const gone = send(server, {
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'shell_exec', arguments: { command: 'sleep 77' }, _meta: META },
      },
      headers: {
        'mcp-protocol-version': MODERN,
        'mcp-method': 'tools/call',
        'mcp-name': 'shell_exec',
      },
      signal: stop.signal,
    })
    setTimeout(() => stop.abort(), 200)
    await t.rejects(gone)
    const left = await call(server, 'shell_exec', { command: 'pgrep -f "[s]leep 77" || echo none' })
    t.match(left.text, /none/)
  },
)

t.test('a chat without a session begins one, and goes on with it by name', async (t) => {
  const model = await startModel(() => ({ text: 'Yes.' }))
  t.teardown(() => model.close())
  const server = await serve(t, { env: modelEnv(model) })
  const chat = async (args: JsonObject = {}): Promise<string> =>
    (await call(server, 'chat', { message: 'hi', ...args })).body.result.structuredContent.session
  const first = await chat()
  const second = await chat()
  t.not(second, first)
  t.equal(await chat({ session: first }), first)
})
