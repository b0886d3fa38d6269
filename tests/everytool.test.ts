/* oxlint-disable max-lines -- a table of every tool */
// Every tool that is served, by the official client, over HTTP and over stdio: a good call with what
// comes back, and a bad one with its error.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import * as http from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { TOOLS, type JsonObject } from '../tai.ts'
import { binary } from './fakes/binary.ts'
import { startModel } from './fakes/model.ts'
import { peer } from './fakes/peers.ts'
import { startProxy } from './fakes/proxy.ts'
import { pipe } from './fakes/piped.ts'
import { begin, KEY, serve } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'

type Args = JsonObject | ((seen: Record<string, string>) => JsonObject)
type Bad = number | RegExp // a JSON-RPC error, or the text of a tool that failed
type Row = readonly [tool: string, good: Args, want: RegExp, bad: Args, error: Bad, keep?: string]

const PATCH = '--- a/new.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-one\n+two\n'

// In their order: later rows use what earlier ones made. `keep` names the first group of `want`.
// biome-ignore format: a table
const ROWS: readonly Row[] = [
  ['read_file', { path: 'a.txt' }, /^alpha\nbeta\n$/, { path: 'none.txt' }, /nothing at none\.txt/],
  ['list_dir', { path: '.' }, /a\.txt {2}11 B/, { path: 'a.txt' }, /is a file, not a folder/],
  ['file_info', { path: 'a.txt', hash: true }, /sha256 +[0-9a-f]{64}/, { path: '../x' }, /outside the workspace/],
  ['write_file', { path: 'new.txt', content: 'one\n' }, /new\.txt/, { path: 'x.txt' }, -32602],
  ['edit_file', { path: 'a.txt', old: 'beta', new: 'gamma' }, /a\.txt/, { path: 'a.txt', old: 'omega', new: 'x' }, /omega|not/],
  ['apply_patch', { patch: PATCH }, /new\.txt/, { patch: 'no patch' }, /patch|diff/],
  ['move_path', { from: 'new.txt', to: 'moved.txt' }, /moved\.txt/, { from: 'gone.txt', to: 'x' }, /gone\.txt/],
  ['undo_edit', { path: 'moved.txt' }, /new\.txt|moved\.txt/, { steps: 0 }, -32602],
  ['delete_path', { path: 'new.txt' }, /new\.txt/, { path: 'never.txt' }, /never\.txt/],
  ['glob', { pattern: '**/*.json' }, /sub\/data\.json/, { pattern: 7 }, -32602],
  ['grep', { pattern: 'alpha' }, /a\.txt:1:alpha/, { pattern: '(' }, /regular expression|group/i],
  ['shell_exec', { command: 'echo hi; exit 3' }, /code 3\][^]*hi/, { command: 'true', timeout_s: 0 }, -32602],
  ['process_start', { command: 'cat', name: 'cat' }, /(p?\w+)/, { command: 'cat', cwd: 'nowhere' }, /nowhere/],
  ['process_list', {}, /^(\S+)[^\n]*cat/m, { all: true }, -32602, 'process'],
  ['process_input', (seen) => ({ id: seen['process'] ?? '', text: 'echoed\n' }), /./, { id: 'nope', text: '' }, /nope/],
  ['process_output', (seen) => ({ id: seen['process'] ?? '', wait_s: 2 }), /echoed/, { id: 'nope' }, /nope/],
  ['process_stop', (seen) => ({ id: seen['process'] ?? '' }), /./, { id: 'nope' }, /nope/],
  ['git_status', {}, /main/, { path: '..' }, /outside the workspace/],
  ['git_diff', {}, /^-beta$[^]*^\+gamma$/m, { from: '--output=x' }, /./],
  ['git_log', {}, /first commit/, { limit: 0 }, -32602],
  ['git_commit', { message: 'second commit', paths: ['a.txt'] }, /second commit/, { message: 'again', paths: ['a.txt'] }, /./],
  ['git_branch', { action: 'list' }, /main/, { action: 'rename' }, -32602],
  ['web_fetch', { url: 'http://pages.example/a' }, /A page/, { url: 'http://127.0.0.1:1/' }, /127\.0\.0\.1/],
  ['http_request', { method: 'POST', url: 'http://pages.example/api', body: '{}' }, /"said":"POST"/, { method: 'SEND', url: 'x' }, -32602],
  ['web_search', { query: 'tea' }, /A result/, {}, -32602],
  ['vault_write', { title: 'tea', content: 'green tea' }, /([a-z0-9]{8,})/, { content: 'x', kind: 'poem' }, -32602, 'note'],
  ['vault_read', (seen) => ({ id: seen['note'] ?? '' }), /green tea/, { id: 'nope' }, /nope/],
  ['vault_search', { query: 'green' }, /tea/, {}, -32602],
  ['vault_delete', (seen) => ({ id: seen['note'] ?? '' }), /./, { id: 'nope' }, /nope/],
  ['todo_write', { items: [{ text: 'brew', status: 'pending' }] }, /brew/, { items: 'brew' }, -32602],
  ['todo_read', {}, /brew/, { all: 1 }, -32602],
  ['ask_user', { question: 'tea?' }, /nobody can be asked/, {}, -32602],
  ['select_tools', { query: 'background process' }, /process_start/, { limit: 0 }, -32602],
  ['text_diff', { a: 'one\n', b: 'two\n' }, /^-one$[^]*^\+two$/m, {}, /./],
  ['time_now', { tz: 'Asia/Tokyo' }, /Tokyo/, { tz: 'Mars/Base' }, /Mars/],
  ['system_info', {}, /linux|darwin|win32/i, { all: 1 }, -32602],
  ['secret_list', {}, /TEA_KEY/, { all: 1 }, -32602],
  ['secret_request', { name: 'MORE', reason: 'to test' }, /nobody|denied|asked/, { name: '1x', reason: 'y' }, -32602],
  ['session_list', {}, /./, { limit: 0 }, -32602],
  ['chat', { message: 'hello' }, /Yes\./, { message: '' }, -32602],
  ['session_list', { query: 'hello' }, /([a-z0-9]{8,})/, { limit: 0 }, -32602, 'session'],
  ['session_read', (seen) => ({ id: seen['session'] ?? '' }), /hello/, { id: 'nope' }, /nope/],
  ['profile_list', {}, /reader/, { all: 1 }, -32602],
  ['profile_switch', { name: 'reader' }, /reader/, { name: 'nope' }, /nope/],
  ['model_list', {}, /fake-model/, { provider: 'nope' }, /nope/],
  ['model_switch', { model: 'openai/fake-model' }, /fake-model/, { model: 'openai/none' }, /none/],
  ['config_get', { key: 'max_steps' }, /50/, { key: 'nope' }, /nope/],
  ['config_set', { key: 'max_steps', value: 40 }, /max_steps/, { key: 'permission_mode', value: 'allow' }, /permission_mode/],
  ['agent_run', { task: 'say yes' }, /Yes\./, { task: 'x', max_steps: 0 }, -32602],
  ['completions', { messages: [{ role: 'user', content: 'hi' }] }, /Yes\./, { messages: [] }, -32602],
  ['mcp_list', {}, /no servers/, { all: 1 }, -32602],
  ['mcp_add', (seen) => ({ source: seen['server'] ?? '' }), /time: stdio/, { source: 'https://127.0.0.1:1/' }, /./],
  ['mcp_enable', { server: 'time' }, /enabled/, { server: 'nope' }, /nope/],
  ['mcp_tools', { server: 'time' }, /echo/, { server: 'nope' }, /nope/],
  ['mcp_search', { query: 'echo' }, /enabled servers: time/, { query: 'echo', limit: 99 }, -32602],
  ['mcp_call', { server: 'time', tool: 'echo', args: { message: 'tea' } }, /tea/, { server: 'time', tool: 'nope' }, /nope/],
  ['mcp_disable', { server: 'time' }, /disabled/, { server: 'nope' }, /nope/],
  ['mcp_remove', { server: 'time' }, /removed/, { server: 'nope' }, /nope/],
  ['json_query', { path: 'sub/data.json', query: 'a' }, /1/, { path: 'sub/data.json', query: 'a[' }, /./],
  ['sqlite_query', { path: 'data.db', sql: 'SELECT name FROM teas' }, /sencha/, { path: 'data.db', sql: 'DELETE FROM teas' }, /./],
  ['archive_create', { paths: ['a.txt', 'sub'], dest: 'out.tar.gz' }, /out\.tar\.gz/, { paths: ['none'], dest: 'x.zip' }, /none/],
  ['archive_extract', { path: 'out.tar.gz', dest: 'unpacked' }, /unpacked/, { path: 'a.txt' }, /./],
  ['audit_search', { tool: 'read_file' }, /read_file/, { since: 'noon' }, -32602],
]

/** A workspace, a home, and all that the tools reach. */
async function surroundings(t: Test) {
  const cwd = folder()
  const home = folder()
  const git = (...args: string[]) =>
    spawnSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { cwd })
  mkdirSync(join(cwd, 'sub'))
  writeFileSync(join(cwd, 'a.txt'), 'alpha\nbeta\n')
  writeFileSync(join(cwd, 'sub', 'data.json'), '{"a":1}')
  const db = new DatabaseSync(join(cwd, 'data.db'))
  db.exec("CREATE TABLE teas (name TEXT); INSERT INTO teas VALUES ('sencha')")
  db.close()
  git('init', '-q', '-b', 'main')
  git('config', 'user.name', 't')
  git('config', 'user.email', 't@t')
  git('add', '.')
  git('commit', '-qm', 'first commit')
  const model = await startModel(() => ({ text: 'Yes.' }))
  const pages = http.createServer((request, response) => {
    if (request.url?.includes('search')) {
      const results = [{ title: 'A result', url: 'http://pages.example/a', content: 'on tea' }]
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ results }))
    } else if (request.method === 'POST')
      response.setHeader('content-type', 'application/json').end('{"said":"POST"}')
    else response.setHeader('content-type', 'text/html').end('<h1>A page</h1><p>of words</p>')
  })
  pages.listen(0, '127.0.0.1')
  await once(pages, 'listening')
  const { port } = pages.address() as AddressInfo
  const proxy = await startProxy(port)
  t.teardown(async () => {
    await model.close()
    pages.closeAllConnections()
    pages.close()
    await proxy[Symbol.asyncDispose]()
  })
  const env = {
    ...modelEnv(model),
    HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
    TAI_WEB_SEARCH: `http://127.0.0.1:${port}`,
  }
  const at = { env: { PATH: process.env['PATH'] ?? '', HOME: home, ...env }, cwd }
  const file = await binary()
  spawnSync(file, ['secret', 'set', 'TEA_KEY'], { ...at, input: 'a-value-of-tea' })
  spawnSync(file, ['profile', 'create', 'reader'], at)
  const everything = await peer('@modelcontextprotocol/server-everything/dist/index.js')
  const server = JSON.stringify({
    mcpServers: { time: { command: process.execPath, args: [everything] } },
  })
  return { cwd, home, env, file, server }
}

type Test = { teardown(work: () => unknown): void }
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into results freely
type Any = any
type Around = Awaited<ReturnType<typeof surroundings>>

const SDK = '@modelcontextprotocol/sdk/dist/esm/client'

/** The official client, connected over one of the transports. */
const CONNECT: Record<string, (t: Test, around: Around) => Promise<Any>> = {
  HTTP: async (t, { cwd, home, env }) => {
    const { StreamableHTTPClientTransport } = await import(await peer(`${SDK}/streamableHttp.js`))
    const server = await serve(t as never, { cwd, home, env })
    const headers = { Authorization: `Bearer ${KEY}` }
    return new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } })
  },
  stdio: async (_, { cwd, home, env, file }) => {
    const { StdioClientTransport } = await import(await peer(`${SDK}/stdio.js`))
    const all = { PATH: process.env['PATH'] ?? '', HOME: home, ...env }
    const args = ['mcp', 'serve', '--yolo', '--root', cwd, '--quiet']
    return new StdioClientTransport({ command: file, args, env: all, stderr: 'inherit' })
  },
}

const textOf = (result: Any): string =>
  result.content.map((part: Any) => part.text ?? '').join('\n')

for (const [transport, connect] of Object.entries(CONNECT))
  t.test(`every tool does its work and refuses what is wrong, over ${transport}`, async (t) => {
    const around = await surroundings(t)
    const { Client } = await import(await peer(`${SDK}/index.js`))
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(await connect(t, around))
    t.teardown(() => client.close())

    const { tools } = await client.listTools()
    t.equal(tools.length, 62)
    t.strictSame(
      tools.slice(60).map(({ name }: Any) => name),
      ['chat', 'completions'],
    )
    const names = new Set(ROWS.map(([name]) => name))
    t.strictSame([...names].toSorted(), tools.map(({ name }: Any) => name).toSorted())

    const seen: Record<string, string> = { server: around.server }
    for (const [name, good, want, bad, error, keep] of ROWS) {
      const call = (args: Args) =>
        client
          .callTool({ name, arguments: typeof args === 'function' ? args(seen) : args })
          .catch((thrown: unknown) => thrown)
      const done = await call(good)
      const text = done instanceof Error ? `${done}` : textOf(done)
      t.match(text, want, `${name} works`)
      if (keep) seen[keep] = want.exec(text)?.[1] ?? ''
      const failed = await call(bad)
      if (typeof error === 'number') t.match(failed, { code: error }, `${name} refuses`)
      else
        t.match(
          [failed.isError, failed.content && textOf(failed)],
          [true, error],
          `${name} refuses`,
        )
    }
  })

t.test('the native tools are listed as the registry has them, to the byte', async (t) => {
  const native = TOOLS.map(({ name, description, parameters, annotations }) => {
    return { name, description, inputSchema: parameters, annotations }
  })
  const peer = await begin(await serve(t))
  const piped = await pipe(t)
  for (const { result } of [(await peer.ask('tools/list')).body, await piped.ask('tools/list')])
    t.equal(JSON.stringify(result.tools.slice(0, 60)), JSON.stringify(native))
})

t.test('the list of tools is the one that was given', (t) => {
  const given = JSON.parse(
    readFileSync(new URL('./data/native-tools.json', import.meta.url), 'utf8'),
  )
  t.strictSame(
    TOOLS.map(({ name }) => name).toSorted(),
    given.tools.map(({ name }: Any) => name).toSorted(),
  )
  t.end()
})
