// tai mcp serve: the built binary over stdin and stdout, as hosts start it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { MCP_HTTP_MAX_BODY, MCP_QUEUE_MAX, Store, TOOLS } from '../tai.ts'
import { membersOf } from './fakes/groups.ts'
import { startModel } from './fakes/model.ts'
import { outsideOf } from './fakes/outside.ts'
import { META, MODERN, pipe } from './fakes/piped.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'

const names = [...TOOLS.map(({ name }) => name), 'chat', 'completions']

t.test('both eras are greeted, and the tools are the same', async (t) => {
  const server = await pipe(t)
  for (const [asked, answered] of [
    ['2024-11-05', '2024-11-05'],
    ['2025-06-18', '2025-06-18'],
    ['2025-11-25', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
    [undefined, '2024-11-05'],
  ]) {
    const { result } = await server.ask('initialize', asked ? { protocolVersion: asked } : {})
    t.equal(result.protocolVersion, answered, asked ?? 'none')
    t.strictSame(result.capabilities, { tools: {}, resources: {} })
    t.equal(result.serverInfo.name, 'tai')
  }
  const { result: old } = await server.ask('tools/list')
  const { result: fresh } = await server.ask('tools/list', { _meta: META })
  t.strictSame(
    old.tools.map(({ name }: { name: string }) => name),
    names,
  )
  t.strictSame(fresh.tools, old.tools)
  t.match(fresh, { resultType: 'complete', ttlMs: 3_600_000, cacheScope: 'private' })
  t.match(fresh, { _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'tai' } } })
  const { result: found } = await server.ask('server/discover', { _meta: META })
  t.match(found, { supportedVersions: [MODERN], capabilities: { tools: {}, resources: {} } })
})

t.test('a host that only looks leaves nothing behind', async (t) => {
  const server = await pipe(t)
  await server.ask('server/discover', { _meta: META })
  await server.ask('initialize', {})
  await server.ask('ping')
  t.notOk(existsSync(join(server.home, '.tai')), 'no home is made')
  server.child.stdin.end()
  t.match(await server.done, { code: 0 })
  t.notOk(existsSync(join(server.home, '.tai')))
})

const V = 'io.modelcontextprotocol/protocolVersion'
const C = 'io.modelcontextprotocol/clientCapabilities'

// biome-ignore format: a table
const LINES: [what: string, line: string | object, answer: object][] = [
  ['no JSON', '{nope', { id: null, error: { code: -32700 } }],
  ['no message', '7', { id: null, error: { code: -32600 } }],
  ['a list of them', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', { id: null, error: { code: -32600 } }],
  ['another JSON-RPC', '{"id":1,"method":"ping"}', { id: null, error: { code: -32600 } }],
  ['an id that is none', '{"jsonrpc":"2.0","id":{},"method":"ping"}', { id: null, error: { code: -32600 } }],
  ['a text id', '{"jsonrpc":"2.0","id":"a","method":"ping"}', { id: 'a', result: {} }],
  ['a CR', '{"jsonrpc":"2.0","id":1,"method":"ping"}\r', { id: 1, result: {} }],
  ['an unknown method', { jsonrpc: '2.0', id: 1, method: 'prompts/list' }, { id: 1, error: { code: -32601 } }],
  ['an unknown tool', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'nope' } },
    { id: 1, error: { code: -32601, data: { tool: 'nope' } } }],
  ['the same, stateless', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'nope', _meta: META } },
    { id: 1, error: { code: -32602 } }],
  ['what the stateless era has not', { jsonrpc: '2.0', id: 1, method: 'ping', params: { _meta: META } },
    { id: 1, error: { code: -32601 } }],
  ['half a _meta', { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { [V]: MODERN } } },
    { id: 1, error: { code: -32602 } }],
  ['a version to come', { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: { [V]: '2031-01-01', [C]: {} } } },
    { id: 1, error: { code: -32022, data: { supported: [MODERN], requested: '2031-01-01' } } }],
  ['arguments that do not fit', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'read_file', arguments: { path: 7 } } },
    { id: 1, error: { code: -32602, data: { tool: 'read_file', path: '/path' } } }],
  ['what needs a person', { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'shell_exec', arguments: { command: 'rm x' } } },
    { id: 1, error: { code: -32001, data: { tool: 'shell_exec', reason: 'jit_no_approval', mode: 'prompt' } } }],
]

t.test('a line that is wrong is told, and the next one is answered', async (t) => {
  const server = await pipe(t)
  for (const [what, line, answer] of LINES) {
    server.say('')
    server.say({ jsonrpc: '2.0', method: 'notifications/initialized' })
    server.say({ jsonrpc: '2.0', id: 1, result: {} })
    server.say(line)
    t.match(await server.next(), answer, what)
  }
  server.child.stdin.write(Buffer.from([0x7b, 0xff, 0x7d, 0x0a]))
  t.match(await server.next(), { id: null, error: { code: -32700 } }, 'no UTF-8')
  server.say('x'.repeat(MCP_HTTP_MAX_BODY + 1))
  t.match(await server.next(), { id: null, error: { code: -32600, message: /at most 10/ } })
  t.match(await server.ask('ping'), { result: {} })
})

/** A process that the server keeps, by its group. */
async function sleeper({ call }: Awaited<ReturnType<typeof pipe>>): Promise<number> {
  await call('process_start', { command: 'exec sleep 60' })
  const { result } = await call('process_list')
  return Number(/pid (\d+)/.exec(result.content[0].text)?.[1])
}

t.test('the end of stdin waits for what was asked, and then everything ends', async (t) => {
  const cwd = folder()
  const grant = { cwd, home: folder() }
  await tai(['approval', 'grant', 'shell_exec'], grant)
  await tai(['approval', 'grant', 'process_start'], grant)
  const server = await pipe(t, grant)
  const group = await sleeper(server)
  t.equal(membersOf(group).length, 1)
  server.send('tools/call', { name: 'shell_exec', arguments: { command: 'sleep 0.3; echo done' } })
  server.child.stdin.end()
  t.match((await server.next()).result.content[0].text, /done/)
  const { code, out } = await server.done
  t.equal(code, 0)
  t.equal(out.trim().split('\n').length, 3, 'stdout had the messages alone')
  t.strictSame(membersOf(group), [])
})

for (const [signal, code] of [
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)
  t.test(`${signal} ends it with its calls and processes`, async (t) => {
    const server = await pipe(t, { args: ['--yolo'] })
    const group = await sleeper(server)
    t.equal(membersOf(group).length, 1)
    server.send('tools/call', { name: 'shell_exec', arguments: { command: 'sleep 60' } })
    await server.ask('ping').catch(() => {})
    server.child.kill(signal)
    t.match(await server.done, { code })
    t.strictSame(membersOf(group), [])
  })

t.test('calls run in order, a ping passes them, and one can be cancelled', async (t) => {
  const server = await pipe(t, { args: ['--permission-mode', 'danger-full-access'] })
  await server.ask('initialize', {})
  const slow = server.send('tools/call', { name: 'shell_exec', arguments: { command: 'sleep 30' } })
  const after = server.send('tools/call', { name: 'time_now', arguments: {} })
  t.match(await server.ask('ping'), { result: {} })
  server.say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: slow } })
  t.match(await server.next(), { id: slow, error: { code: -32000 } })
  t.match(await server.next(), { id: after, result: { content: [{ type: 'text' }] } })
  for (let i = 0; i < MCP_QUEUE_MAX; i++)
    server.send('tools/call', { name: 'shell_exec', arguments: { command: 'sleep 30' } })
  t.match(await server.call('time_now'), { error: { code: -32002, data: { retry_after_s: 1 } } })
  server.child.kill('SIGTERM')
})

t.test('stateless calls do not wait for each other', async (t) => {
  const server = await pipe(t, { args: ['--yolo'] })
  const call = (command: string) =>
    server.send('tools/call', { name: 'shell_exec', arguments: { command }, _meta: META })
  const slow = call('sleep 1; echo slow')
  const fast = call('echo fast')
  t.equal((await server.next()).id, fast)
  t.match(await server.next(), { id: slow, result: { resultType: 'complete' } })
})

t.test('a chat goes on in its session, and begins a new one in the stateless era', async (t) => {
  const model = await startModel(() => ({ text: 'Yes.' }))
  t.teardown(() => model.close())
  const server = await pipe(t, { env: modelEnv(model) })
  const chat = async (more: object = {}) =>
    (await server.call('chat', { message: 'hi' }, more as never)).result.structuredContent.session
  const first = await chat()
  t.equal(await chat(), first)
  const other = await chat({ _meta: META })
  t.not(other, first)
  t.not(await chat({ _meta: META }), other)
})

t.test('a reader that leaves ends the server', async (t) => {
  const server = await pipe(t)
  await server.ask('ping')
  server.child.stdout.destroy()
  server.send('ping')
  server.send('ping')
  t.match(await server.done, { signal: null })
})

t.test('who does not read is not read from, and nothing is lost', async (t) => {
  const cwd = folder()
  writeFileSync(join(cwd, 'big.txt'), 'x'.repeat(500_000))
  const server = await pipe(t, { cwd })
  server.child.stdout.pause()
  const asked = Array.from({ length: 300 }, () =>
    server.send('resources/read', { uri: 'tai://workspace/big.txt' }),
  )
  await new Promise((resolve) => setTimeout(resolve, 500))
  const rss = Number(
    /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))?.[1],
  )
  t.ok(rss < 400_000, `it holds ${rss} kB`)
  server.child.stdout.resume()
  const answered = new Set<number>()
  for (const _ of asked) answered.add((await server.next()).id)
  t.equal(answered.size, asked.length)
})

t.test('what cannot be served is said at once', async (t) => {
  const at = { stdin: '', cwd: folder() }
  t.match(await tai(['mcp', 'serve', '--root', '/nowhere'], at), {
    code: 2,
    out: '',
    err: /no folder/,
  })
  t.match(await tai(['mcp', 'serve', '--permission-mode', 'all'], at), {
    code: 2,
    err: /read-only/,
  })
  t.match(await tai(['mcp', 'serve', '--tools', 'grep,nosuch'], at), {
    code: 2,
    err: /there is no tool named nosuch\n.*tai tools list/,
  })
  t.match(await tai(['mcp', 'serve', '--profile', 'nosuch'], at), {
    code: 2,
    err: /there is no profile nosuch\n.*tai profile list/,
  })
  t.match(await tai(['mcp', 'serve', '--file', 'x'], at), { code: 2, err: /unknown flag --file/ })
  t.match(await tai(['mcp', 'serve', 'now'], at), { code: 2 })
  t.match(await tai(['mcp', 'serve', '--help'], at), { code: 0, out: /--permission-mode/ })
})

t.test('what shows only later is told with what to do about it', async (t) => {
  const home = folder()
  const { world } = outsideOf({ home })
  const store = await Store.open(world)
  await store.setSetting('tools', 'read_file,zzz')
  store.close()
  const server = await pipe(t, { home })
  const { error } = await server.ask('tools/list')
  t.match(error, {
    code: -32603,
    message:
      /^there is no tool named zzz \(tai config set: tools\); `tai config unset tools` takes/,
  })
})

t.test('flags of a turn set its defaults', async (t) => {
  const server = await pipe(t, { args: ['--tools', 'read_file,time_now'] })
  const { result } = await server.ask('tools/list')
  t.strictSame(
    result.tools.map(({ name }: { name: string }) => name),
    ['read_file', 'time_now'],
  )
  t.match(server.said.err, /serving .* over MCP on stdin and stdout/)
})
