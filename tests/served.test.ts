// Clients that others wrote, in front of the built binary's --serve-mcp.
import t from 'tap'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { binary } from './fakes/binary.ts'
import { startModel } from './fakes/model.ts'
import { peer } from './fakes/peers.ts'
import { KEY, serve } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'

const AUTHORIZATION = `Authorization: Bearer ${KEY}`
const INFO = { name: 'a-client-by-others', version: '1.0.0' }

/** A workspace with one file in it. */
function workspace(): string {
  const dir = folder()
  writeFileSync(join(dir, 'a.txt'), 'one\ntwo\n')
  return dir
}

/** A program of tests/peers, run to its end. */
async function run(entry: string, args: readonly string[], env: Record<string, string> = {}) {
  const file = await peer(entry)
  const options = { env: { PATH: process.env['PATH'], HOME: folder(), ...env }, timeout: 60_000 }
  return new Promise<{ code: unknown; out: string; err: string }>((resolve) => {
    execFile(process.execPath, [file, ...args], options, (error, out, err) =>
      resolve({ code: error === null ? 0 : error.code, out, err }),
    )
  })
}

t.test('the official inspector lists the tools and calls them', async (t) => {
  const server = await serve(t, { cwd: workspace() })
  const launcher = '@modelcontextprotocol/inspector/clients/launcher/build/index.js'
  const quiet = ['--protocol-era', 'legacy', '--format', 'json', '-q']
  const inspect = (method: string[], header = AUTHORIZATION) =>
    run(launcher, ['--cli', server.url, '--header', header, ...quiet, '--method', ...method])
  const call = (name: string, arg: string) =>
    inspect(['tools/call', '--tool-name', name, '--tool-arg', arg])

  for (const more of [[], ['--strict']]) {
    const { code, out, err } = await inspect(['tools/list', ...more])
    t.equal(code, 0, `tools/list ${more}: ${err}`)
    // The values of an SQL query are of several types, as JSON Schema allows.
    const warnings = [...err.matchAll(/^Warning: .*\n.*Path: (.*)/gm)].map(([, at]) => at)
    t.strictSame(warnings, more.length > 0 ? ['inputSchema.properties.params.items'] : [])
    if (more.length === 0) t.equal(err, '')
    const names: string[] = JSON.parse(out).result.tools.map((tool: { name: string }) => tool.name)
    for (const name of ['read_file', 'shell_exec', 'chat', 'completions'])
      t.ok(names.includes(name), name)
  }
  const cases: [string, string, number, object][] = [
    ['read_file', 'path=a.txt', 0, { content: [{ type: 'text', text: 'one\ntwo\n' }] }],
    ['read_file', 'path=none.txt', 5, { isError: true }],
    ['shell_exec', 'command=echo hello', 0, { structuredContent: { stdout: 'hello\n' } }],
    ['shell_exec', 'command=exit 3', 5, { isError: true, structuredContent: { exit_code: 3 } }],
  ]
  for (const [name, arg, code, result] of cases) {
    const ran = await call(name, arg)
    t.equal(ran.code, code, `${name} ${arg}`)
    t.match(JSON.parse(ran.out), { result })
  }
  t.match(await inspect(['tools/list'], 'Authorization: Bearer wrong'), { code: 3, out: '' })
})

/** Where each major version of the official SDK keeps its client. */
const SDKS = [
  {
    name: 'SDK 1.x',
    client: '@modelcontextprotocol/sdk/dist/esm/client/index.js',
    http: '@modelcontextprotocol/sdk/dist/esm/client/streamableHttp.js',
  },
  {
    name: 'SDK 2.x',
    client: '@modelcontextprotocol/client/dist/index.mjs',
    http: '@modelcontextprotocol/client/dist/index.mjs',
  },
]

for (const { name, client: entry, http } of SDKS)
  t.test(`the official ${name} keeps a chat, calls tools and ends its session`, async (t) => {
    const model = await startModel([{ text: 'Hello Ada.' }, { text: '42.' }, { text: 'Ada.' }])
    t.teardown(() => model.close())
    const server = await serve(t, { cwd: workspace(), env: modelEnv(model) })
    const { Client } = await import(await peer(entry))
    const { StreamableHTTPClientTransport } = await import(await peer(http))
    const client = new Client(INFO)
    const headers = { Authorization: `Bearer ${KEY}` }
    const transport = new StreamableHTTPClientTransport(new URL(server.url), {
      requestInit: { headers },
    })
    const faults: unknown[] = []
    Object.assign(client, { onerror: (error: unknown) => faults.push(error) })
    await client.connect(transport)
    t.match(client.getServerVersion(), { name: 'tai' })

    const { tools } = await client.listTools()
    t.ok(tools.length > 30)
    const read = await client.callTool({ name: 'read_file', arguments: { path: 'a.txt' } })
    t.match(read, { content: [{ type: 'text', text: 'one\ntwo\n' }] })
    const failed = await client.callTool({ name: 'read_file', arguments: { path: 'none' } })
    t.equal(failed.isError, true)
    const unknown = client.callTool({ name: 'no_such_tool', arguments: {} })
    await t.rejects(unknown, { code: -32601, message: /no_such_tool/ })

    const said: string[] = []
    const sessions = new Set<string>()
    for (const message of ['I am Ada', 'what is 6 times 7?', 'who am I?']) {
      const answer = await client.callTool({ name: 'chat', arguments: { message } })
      said.push(answer.content[0].text)
      sessions.add(answer.structuredContent.session)
    }
    t.strictSame(said, ['Hello Ada.', '42.', 'Ada.'])
    t.equal(sessions.size, 1)
    const history: { role: string; content: string }[] = model.requests[2]?.body.messages
    t.strictSame(
      history.filter(({ role }) => role !== 'system').map(({ role, content }) => [role, content]),
      [
        ['user', 'I am Ada'],
        ['assistant', 'Hello Ada.'],
        ['user', 'what is 6 times 7?'],
        ['assistant', '42.'],
        ['user', 'who am I?'],
      ],
    )

    const session = transport.sessionId
    t.ok(session)
    await transport.terminateSession()
    await client.close()
    t.strictSame(faults, [])
    const late = await fetch(server.url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'mcp-session-id': session },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    })
    t.match(await late.json(), { error: { code: -32001 } })
    t.equal(late.status, 404)
  })

t.test(
  'a client that says it could not read something is heard, though it names no id',
  async (t) => {
    const server = await serve(t)
    const { status } = await fetch(server.url, {
      method: 'POST',
      headers: { Authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
    })
    t.equal(status, 202)
  },
)

t.test('mcp-remote in front of it is a stdio server', async (t) => {
  const server = await serve(t, { cwd: workspace() })
  const sdk = '@modelcontextprotocol/sdk/dist/esm/client'
  const { Client } = await import(await peer(`${sdk}/index.js`))
  const { StdioClientTransport } = await import(await peer(`${sdk}/stdio.js`))
  const home = folder()
  const client = new Client(INFO)
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [await peer('mcp-remote/dist/proxy.js'), server.url, '--header', AUTHORIZATION],
    env: { PATH: process.env['PATH'] ?? '', HOME: home, MCP_REMOTE_CONFIG_DIR: home },
    stderr: 'ignore',
  })
  await client.connect(transport)
  t.teardown(() => client.close())
  t.match(client.getServerVersion(), { name: 'tai' })
  const { tools } = await client.listTools()
  t.ok(tools.some((tool: { name: string }) => tool.name === 'chat'))
  const read = await client.callTool({ name: 'read_file', arguments: { path: 'a.txt' } })
  t.match(read, { content: [{ type: 'text', text: 'one\ntwo\n' }] })
})

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

t.test(
  "the README's entries for Claude Code, Cursor and VS Code start a server on stdio",
  async (t) => {
    const blocks = [...readme.matchAll(/```json\n(\{[^]*?)```/g)].map(([, json = '']) => json)
    const entries = blocks.filter((json) => json.includes('"mcp", "serve"'))
    t.equal(entries.length, 2)
    const cwd = workspace()
    const launcher = '@modelcontextprotocol/inspector/clients/launcher/build/index.js'
    for (const json of entries) {
      const { mcpServers, servers = mcpServers } = JSON.parse(json)
      const { command, args } = servers.tai
      t.equal(command, 'tai')
      const here = args.map((it: string) => (/^\/path|^\$\{/.test(it) ? cwd : it))
      const config = join(folder(), 'mcp.json')
      const tai = { command: await binary(), args: here }
      writeFileSync(config, JSON.stringify({ mcpServers: { tai } }))
      for (const era of ['legacy', 'auto', 'modern']) {
        const how = ['--cli', '--config', config, '--server', 'tai', '--protocol-era', era]
        const inspect = (...method: string[]) =>
          run(launcher, [...how, '--format', 'json', '-q', '--method', ...method])
        const { out } = await inspect('tools/list')
        t.equal(JSON.parse(out).result.tools.length, 62, era)
        const read = ['--tool-name', 'read_file', '--tool-arg', 'path=a.txt']
        const { code, out: said } = await inspect('tools/call', ...read)
        t.equal(code, 0)
        t.match(JSON.parse(said).result.content, [{ type: 'text', text: 'one\ntwo\n' }], era)
        const listed = await inspect('resources/list')
        t.match(JSON.parse(listed.out).result.resources, [{ uri: 'tai://workspace/a.txt' }], era)
      }
    }
  },
)
