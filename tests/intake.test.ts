// Family a of the cases is the contract; what else people paste stands below it.
import t from 'tap'
import { readFileSync } from 'node:fs'
import {
  type InvalidError,
  MCP_DEPTH_MAX,
  MCP_MAX_SERVERS,
  type McpEntry,
  mcpExpandVars as expandVars,
  type McpLookup,
  mcpNormalize,
  sourceKind,
  TaiError,
  TRANSPORTS,
} from '../tai.ts'

type Row = { in: string; out: string; note?: string }
type Case = {
  id: string
  input: {
    text?: string
    base64?: string
    variants?: { name: string; text: string }[]
    rows?: (Row & { entry?: object; file?: object; want?: string })[]
    process_env?: Record<string, string>
    vault?: Record<string, string>
  }
}

const cases: Case[] = readFileSync(new URL('data/cases.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line.includes('"family": "a"') || line.includes('"family":"a"'))
  .map((line) => JSON.parse(line))
const inputOf = (id: string) => cases.find((each) => each.id === id)!.input
const textOf = (id: string) => inputOf(id).text ?? ''
const variant = (id: string, name: string) =>
  inputOf(id).variants?.find((each) => each.name === name)?.text ?? ''

const none: McpLookup = () => undefined
const from =
  (env: Record<string, string>, secrets: Record<string, string> = {}): McpLookup =>
  (name) =>
    env[name] ?? secrets[name.replace('input:', '')]

const mcpExpandVars = async (entry: McpEntry, lookup: McpLookup) => expandVars(entry, lookup)

/** What an entry says, without what it leaves empty. */
const said = (entry: McpEntry | undefined) =>
  Object.fromEntries(
    Object.entries(entry ?? {}).filter(
      ([, value]) =>
        value !== undefined &&
        Object.keys(Object(value)).length + Number(typeof value === 'boolean') > 0,
    ),
  )
const entriesOf = async (paste: string | object) => {
  const text = typeof paste === 'string' ? paste : JSON.stringify(paste)
  return (await mcpNormalize(text)).entries.map(said)
}
const one = async (entry: object) =>
  (await mcpNormalize(JSON.stringify({ mcpServers: { x: entry } }))).entries[0]!
const notesOf = async (entry: object) =>
  (await mcpNormalize(JSON.stringify({ mcpServers: { x: entry } }))).notes.join('\n')
const failure = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof TaiError)) return `no TaiError: ${String(error)}`
  return `${error.message} | ${error.hint}`
}
const http = { transport: 'http', url: 'https://h.example/mcp' }

// --- family a ---

t.test('a01: comments, trailing commas, and a variable that only an editor knows', async (t) => {
  const { entries, notes } = await mcpNormalize(textOf('a01'))
  t.strictSame(entries.map(said), [
    {
      name: 'ui-tests',
      transport: 'stdio',
      command: 'npm',
      args: ['run', 'start-stdio', '--', '--root=${workspaceFolder}'],
      cwd: '${workspaceFolder}/../test/mcp',
    },
  ])
  t.match(notes.join('\n'), /workspaceFolder/)
  t.match(await failure(mcpExpandVars(entries[0]!, none)), /workspaceFolder/)
})

t.test('a03: a byte-order mark and CRLF', async (t) => {
  const raw = JSON.stringify(inputOf('a03'))
  const text = Buffer.from(/77u\/[\w+/=]+/.exec(raw)?.[0] ?? '', 'base64').toString('utf8')
  t.match(text, /^\ufeff\{\r\n/)
  t.strictSame(await entriesOf(text), [
    {
      name: 'files',
      transport: 'stdio',
      command: 'npx',
      args: ['-y', '@modelcontextprotocol/server-filesystem', 'C:\\Users\\me\\Documents'],
    },
    { name: 'web', transport: 'http', url: 'https://mcp.example.com/mcp' },
  ])
})

t.test('a05: curly quotes, a fragment, a fence', async (t) => {
  t.match(await failure(mcpNormalize(variant('a05', 'curly'))), /line 3, column \d+: .*curly/)
  const calc = [{ name: 'calc', transport: 'http', url: 'http://192.0.2.10:8090/mcp' }]
  t.strictSame(await entriesOf(variant('a05', 'fragment')), calc)
  t.strictSame(await entriesOf(variant('a05', 'fenced')), calc)
})

t.test('a07: the shape of opencode', async (t) => {
  const { entries, notes } = await mcpNormalize(textOf('a07'))
  t.strictSame(entries.map(said), [
    {
      name: 'mongodb',
      transport: 'stdio',
      command: 'npx',
      args: ['-y', 'mongodb-mcp-server@latest'],
      env: { MDB_MCP_CONNECTION_STRING: 'mongodb://db.example.com/x' },
      options: { disabled: false },
    },
    {
      name: 'api',
      transport: 'http',
      url: 'https://mcp.example.com/mcp',
      headers: { Authorization: 'Bearer ${API_KEY}' },
      options: { oauth: false, disabled: true },
    },
  ])
  t.match(notes.join('\n'), /\$schema,tools: ignored/)
  t.match(notes.join('\n'), /mongodb\.timeout: ignored: the limits of tai/)
  t.match(await failure(mcpExpandVars(entries[1]!, none)), /headers: .*API_KEY/)
})

t.test("a09: an argument stays one, and the entry's own env fills it", async (t) => {
  const [remote, wsl] = (await mcpNormalize(textOf('a09'))).entries
  const entry = await mcpExpandVars(remote!, none)
  t.strictSame(entry.args.slice(2), [
    'https://mcp.example.com/sse',
    '--header',
    'Authorization: Bearer t0k en',
    '--header',
    'x-workspace-slug:acme',
  ])
  t.equal((await mcpExpandVars(wsl!, none)).args.at(-1), wsl?.args.at(-1))
  t.match(wsl?.args.at(-1) ?? '', /activate && python3/)
})

t.test('a11: placeholders as they are written', async (t) => {
  const { rows = [], process_env: env = {}, vault = {} } = inputOf('a11')
  t.equal(rows.length, 19)
  const lookup = from(env, vault)
  const expanded = async (field: string, text: string): Promise<string> => {
    const server = field === 'headers' ? { url: 'https://h.example' } : { command: 'x' }
    const value = field === 'args' ? [text] : { K: text }
    const entry = await one({ ...server, [field]: value })
    if (entry.options['disabled']) t.fail('disabled')
    const whole = await mcpExpandVars(entry, lookup)
    return (field === 'args' ? whole.args[0] : whole[field as 'env' | 'headers']['K']) ?? ''
  }
  const wanted: Record<string, string> = {
    '${A_UNSET:-${B_UNSET:-x}}': 'x',
    'Bearer ${THIS IS A SECRET}': 'REFUSED',
    '${API_KEY': 'REFUSED',
    '$env:API_KEY': 'k1',
    '{env:API_KEY}': 'k1',
    '${EMPTY:-d}': 'd',
  }
  for (const row of rows)
    for (const field of ['env', 'headers', 'args']) {
      const want = wanted[row.in] ?? row.out
      const work = expanded(field, row.in)
      if (want !== 'REFUSED') t.equal(await work, want, `${field}: ${row.in}`)
      else t.notMatch(await failure(work), /no TaiError/, `${field}: ${row.in}`)
    }
  t.match(
    await failure(expanded('env', '${MISSING}')),
    /x\.env\.K: \$\{MISSING\}.*tai secret set MISSING/,
  )
  const base = await one({ url: '${API_BASE_URL:-https://api.example.com:8443}/mcp' })
  t.equal((await mcpExpandVars(base, lookup)).url, 'https://api.example.com:8443/mcp')
  t.equal(base.url, '${API_BASE_URL:-https://api.example.com:8443}/mcp', 'kept as it was')
})

t.test('a13: one remote server, a dozen spellings', async (t) => {
  const { rows = [] } = inputOf('a13')
  const refused: [number, RegExp][] = [
    [10, /x: its type is stdio, but it has a url/],
    [12, /x: command and url/],
    [13, /x: its type is websocket/],
  ]
  for (const [at, row] of rows.entries()) {
    if (!row.entry) continue
    const why = refused.find(([index]) => index === at)?.[1]
    if (why) t.match(await failure(one(row.entry)), why)
    else if (at === 9) t.match(said(await one(row.entry)), { transport: 'sse' })
    else if (at === 11) t.match(said(await one(row.entry)), { transport: 'stdio', args: ['x'] })
    else t.match(said(await one(row.entry)), http, JSON.stringify(row.entry))
  }
  t.strictSame((await one(rows[8]!.entry!)).headers, { 'x-token': '${T}' })
  t.match(await notesOf(rows[4]!.entry!), /x\.timeout: ignored/)
  t.match(await notesOf(rows[3]!.entry!), /x\.autoApprove: refused/)
  t.strictSame(await entriesOf(rows[14]!.file!), [{ name: 'a', ...http }])
  t.strictSame(await entriesOf(rows[15]!.file!), [
    { name: 'fs', transport: 'stdio', command: 'npx', args: ['-y', 'x'] },
  ])
})

t.test('a15: keys that grant trust or run code elsewhere', async (t) => {
  const { entries, notes, rejects } = await mcpNormalize(textOf('a15'))
  t.strictSame(rejects, [])
  t.strictSame(entries.map(said), [
    { name: 'ahk', transport: 'stdio', command: 'node', args: ['server.js'] },
    { name: 'dealbook', transport: 'http', url: 'http://127.0.0.1:9/mcp' },
    {
      name: 'off',
      transport: 'stdio',
      command: 'node',
      args: ['x.js'],
      options: { disabled: true },
    },
  ])
  for (const key of ['ahk.alwaysAllow', 'ahk.autoApprove', 'ahk.trust', 'dealbook.headersHelper'])
    t.ok(
      notes.some((note) => note.startsWith(`${key}: refused`)),
      key,
    )
  t.match(notes.join('\n'), /ahk\.description: ignored/)
  t.match(notes.join('\n'), /globalShortcut: ignored/)
  // oxlint-disable-next-line no-control-regex -- none may be there
  t.notMatch(JSON.stringify(notes), /\\u001b|touch/)
})

t.test('a17: tables that stand in the wrong place', async (t) => {
  const { entries, rejects } = await mcpNormalize(textOf('a17'))
  t.strictSame(
    entries.map(({ name }) => name),
    ['node_repl', 'good'],
  )
  const [env, list, none] = rejects.map(({ message, hint }) => `${message} | ${hint}`)
  t.match(env, /node_repl\.env: neither command nor url.*\[mcp_servers\.NAME\.env\]/)
  t.match(list, /perplexity\.env\.env_vars is not a string/)
  t.match(none, /codex_apps: neither command nor url/)
})

t.test('a19: TOML that is none', async (t) => {
  const broken: [string, number][] = [
    ['dup-table', 4],
    ['dup-inline', 5],
    ['win-basic', 2],
  ]
  for (const [name, line] of broken) {
    const why = await failure(mcpNormalize(variant('a19', name)))
    t.match(why, new RegExp(`^line ${line}, column \\d+: `), name)
    t.notMatch(why, /s3cr3t|\n/)
  }
  t.match(await failure(mcpNormalize(variant('a19', 'win-basic'))), /single quotes/)
  t.strictSame(await entriesOf(variant('a19', 'win-literal')), [
    {
      name: 'w',
      transport: 'stdio',
      command: 'C:\\Users\\me\\bin\\server.exe',
      args: ['--root', 'D:\\data'],
    },
  ])
})

t.test('every case of family a has its test', async (t) => {
  const source = readFileSync(new URL(import.meta.url), 'utf8')
  for (const { id } of cases) t.ok(new RegExp(`t\\.test\\(['"]${id}: `).test(source), id)
  t.equal(cases.length, 10)
})

// --- shapes ---

t.test('mcpNormalize finds the servers in every wrapper', async (t) => {
  const a = { command: 'a' }
  const want = [{ name: 'a', transport: 'stdio', command: 'a' }]
  const shapes: object[] = [
    { mcpServers: { a } },
    { 'mcp-servers': { a } },
    { mcp_servers: { a } },
    { servers: { a }, inputs: [{ id: 'k', type: 'promptString' }] },
    { mcp: { servers: { a }, inputs: [] } },
    { mcp: { a } },
    { mcp: [{ title: 'a', config: a }] },
    { context_servers: { a: { source: 'custom', command: { path: 'a', args: [] } } } },
    { entries: [{ title: 'a', config: a }] },
    { a },
    { a, $schema: 'x' },
    { name: 'a', ...a },
    [{ name: 'a', ...a }],
    { mcpServers: { a }, theme: { dark: true } },
  ]
  for (const shape of shapes) t.strictSame(await entriesOf(shape), want, JSON.stringify(shape))
  t.strictSame(
    (await entriesOf({ servers: { command: 'b' }, mcp: { url: 'https://h.example' } })).map(
      ({ name }) => name,
    ),
    ['servers', 'mcp'],
    'a server may have the name of a wrapper',
  )
  for (const shape of [
    {},
    [],
    3,
    { mcpServers: {} },
    { name: 'x', version: '1' },
    { mcpServers: null },
  ])
    t.match(await failure(mcpNormalize(JSON.stringify(shape))), /it has no server/)
})

t.test('mcpNormalize finds blocks in prose, several of JSON or one of TOML', async (t) => {
  const paste = `Add this to your config (see {docs} and [here](https://x.example)):

\`\`\`json
// the first
{ "mcpServers": { "a": { "command": "a" } } }
\`\`\`
or this, don't forget:
"b": { "command": "b", }, "c": { “command”: “c” }
Have fun { }`
  const { entries, notes } = await mcpNormalize(paste)
  t.strictSame(
    entries.map(({ name, command }) => [name, command]),
    ['a', 'b', 'c'].map((name) => [name, name]),
  )
  t.match(notes.join('\n'), /prose is ignored/)
  t.match(notes.join('\n'), /odd quotes/)
  const toml = await mcpNormalize(
    `For {codex}:\n~~~toml\n[mcp_servers.d]\ncommand = "d"\n~~~\nor ${paste}`,
  )
  t.match(toml, {
    entries: [{ name: 'd' }],
    notes: [/odd/, /: all but its first TOML is ignored/],
  })
  const spaced = '{\u00a0"a":\u00a0{ "command": "a", "args": ["“q”\u00a0"] } }'
  t.match((await entriesOf(spaced))[0], { command: 'a', args: ['“q”\u00a0'] })
})

t.test('mcpNormalize names the place of what it cannot read', async (t) => {
  const rows: [string, RegExp][] = [
    ['{\n  "a": {\n    "command" "x"\n  }\n}', /^line 3, column 15: colon expected/],
    ['{ "a": { "command": "x" }', /^line 1, column 26: close brace expected/],
    ['text\n\n{ "a": { "command": \'x\' } }', /^line 3, column 21: /],
    ['{ a: 1 }', /^line 1, column 3: /],
    ['x\n[mcp_servers.a]\ncommand = x', /^line 3, column \d+: /],
    ['', /it has no server/],
    ['hello', /it has no server/],
    [`{"a":${'['.repeat(100_000)}`, /nested/],
    [`{"a":{"command":"x","oauth":${'['.repeat(500)}${']'.repeat(500)}}}`, /nested/],
    [`/* " */ {"a":${'['.repeat(500_000)}`, /nested/],
    [`[mcp_servers.a${'.oauth'.repeat(MCP_DEPTH_MAX)}]\nb=1`, /nested/],
    [`[mcp_servers.a${'.transport'.repeat(50_000)}]\nb=1`, /nested/],
    [`[mcp_servers.a]\nb=${'['.repeat(200_000)}`, /nested|line 2/],
    ['x'.repeat(1_048_577), /over 1 MB/],
  ]
  for (const [paste, why] of rows)
    t.match(await failure(mcpNormalize(paste)), why, paste.slice(0, 40))
  t.notMatch(await failure(mcpNormalize('{"a":{"env":{"K":"s3cr3t"}}')), /s3cr3t/)
})

t.test('mcpNormalize is quick with what is made to be slow', async (t) => {
  const big = 1_000_000
  const pastes = [
    '{',
    '{}',
    '"',
    '\\"',
    '“',
    '{ ',
    '```a\n',
    '[{',
    '"a":',
    '/*',
    "{'",
    '${',
    '{"a":1}',
    'a b ',
  ]
  for (const part of pastes) {
    const started = performance.now()
    await mcpNormalize(part.repeat(big / part.length)).catch(() => {})
    const args = { a: { command: 'x', args: part.repeat(big / 4 / part.length), env: { K: part } } }
    const { entries } = await mcpNormalize(JSON.stringify(args)).catch(() => ({ entries: [] }))
    for (const entry of entries) await mcpExpandVars(entry, none).catch(() => {})
    t.ok(performance.now() - started < 5_000, JSON.stringify(part))
  }
})

t.test('mcpNormalize takes no more than the vault holds', async (t) => {
  const many = (n: number) =>
    Object.fromEntries(Array.from({ length: n }, (_, i) => [`s${i}`, { command: 'x' }]))
  t.equal((await entriesOf({ mcpServers: many(MCP_MAX_SERVERS) })).length, MCP_MAX_SERVERS)
  t.match(
    await failure(entriesOf({ mcpServers: many(MCP_MAX_SERVERS + 1) })),
    /more than 32 servers/,
  )
})

t.test('mcpNormalize gives the same for the same, in any order of keys', async (t) => {
  const a = { command: 'a', env: { B: '1', A: '2' }, args: ['x'] }
  const b = { args: ['x'], env: { A: '2', B: '1' }, command: 'a' }
  t.strictSame(await one(a), await one(b))
  t.equal(JSON.stringify(await one(a)), JSON.stringify(await one(b)), 'in one order')
  t.strictSame(await mcpNormalize(textOf('a15')), await mcpNormalize(textOf('a15')))
  const twice = `${JSON.stringify({ a })}\n${JSON.stringify({ a: b })}`
  t.equal((await mcpNormalize(twice)).entries.length, 1)
  const other = await mcpNormalize(
    `${JSON.stringify({ a })}\n${JSON.stringify({ a: { command: 'b' } })}`,
  )
  t.equal(other.entries[0]?.command, 'a')
  t.match(other.rejects[0]?.message, /a: another entry has this name/)
  t.match(
    (await mcpNormalize('{"a":{"command":"x","command":"y"}}')).notes.join(),
    /command: stands there twice/,
  )
})

// --- entries ---

t.test('mcpNormalize reads all keys of Codex', async (t) => {
  const { entries, notes } = await mcpNormalize(`
model = "x"
[mcp_servers.local]
command = "npx"
args = ["-y", "p"]
env = { A = "1", N = 2, B = true }
env_vars = ["TOKEN", { name = "LATER", source = "remote" }]
cwd = "~/w"
enabled = true
enabled_tools = ["a*"]
disabled_tools = ["ab"]
startup_timeout_sec = 10
tool_timeout_sec = 60
[mcp_servers.local.tools.a]
approval_mode = "approve"
[mcp_servers.remote]
url = "https://h.example/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { X-A = "1" }
env_http_headers = { X-B = "B_VAR" }
enabled = false
`)
  t.strictSame(entries.map(said), [
    {
      name: 'local',
      transport: 'stdio',
      command: 'npx',
      args: ['-y', 'p'],
      env: { A: '1', B: 'true', LATER: '${LATER}', N: '2', TOKEN: '${TOKEN}' },
      cwd: '~/w',
      allow: ['a*'],
      deny: ['ab'],
      enabled: true,
    },
    {
      name: 'remote',
      ...http,
      headers: { Authorization: 'Bearer ${TOKEN}', 'X-A': '1', 'X-B': '${B_VAR}' },
      enabled: false,
    },
  ])
  const told = notes.join('\n')
  for (const note of [
    /local\.startup_timeout_sec: ignored: the limits/,
    /local\.tool_timeout_sec: ignored/,
    /local\.tools: refused/,
    /local\.env\.N: is read as text/,
  ])
    t.match(told, note)
  t.notMatch(told, /\.enabled/)
  const entry = await mcpExpandVars(entries[1]!, from({ B_VAR: 'b' }, { TOKEN: 's3cr3t' }))
  t.strictSame(entry.headers, { Authorization: 'Bearer s3cr3t', 'X-A': '1', 'X-B': 'b' })
  const dotted = 'mcp_servers.a.command = "x"\n'
  t.match(await entriesOf(dotted), [{ name: 'a', command: 'x' }])
})

t.test('mcpNormalize reads what entries of other hosts say', async (t) => {
  const rows: [object, object][] = [
    [{ command: 'npx -y "a b" --k=\'c d\'' }, { command: 'npx', args: ['-y', 'a b', '--k=c d'] }],
    [
      { command: 'uv run', args: ['x y'] },
      { command: 'uv', args: ['run', 'x y'] },
    ],
    [{ command: '/opt/My App/run' }, { command: '/opt/My App/run' }],
    [{ command: 'C:\\Program Files\\x.exe' }, { command: 'C:\\Program Files\\x.exe' }],
    [
      { command: ['a', 'b'], args: ['c'] },
      { command: 'a', args: ['b', 'c'] },
    ],
    [{ command: 'a', args: 'x  "y z" 3' }, { args: ['x', 'y z', '3'] }],
    [{ command: 'a', args: [1, true] }, { args: ['1', 'true'] }],
    [{ uds: '/run/x.sock' }, { transport: 'uds', socket: '/run/x.sock' }],
    [{ uds: '/run/x.sock', type: 'http' }, { transport: 'uds' }],
    [
      { type: 'remote', uri: 'https://h.example' },
      { transport: 'http', url: 'https://h.example' },
    ],
    [{ endpoint: 'https://h.example', httpTransport: 'sse' }, { transport: 'sse' }],
    [
      { command: 'a', tools: ['*'], disabledTools: ['b'] },
      { allow: ['*'], deny: ['b'] },
    ],
    [
      { command: 'a', includeTools: ['b*'], excludeTools: ['bc'] },
      { allow: ['b*'], deny: ['bc'] },
    ],
    [{ url: 'https://h.example', bearerToken: 'k' }, { headers: { Authorization: 'Bearer k' } }],
    [
      { url: 'https://h.example', bearerToken: '${input:k}' },
      { headers: { Authorization: 'Bearer ${input:k}' } },
    ],
    [
      { command: 'a', lifecycle: 'lazy', idleTimeout: 5, requestTimeoutMs: 9, toolPrefix: 'none' },
      { options: { lifecycle: 'lazy', idleTimeout: 5, requestTimeoutMs: 9, toolPrefix: 'none' } },
    ],
    [
      { command: 'a', directTools: ['x'], era: '2026-07-28' },
      { options: { directTools: ['x'], era: '2026-07-28' } },
    ],
    [
      { command: 'a', env: { A: '%API_KEY%', B: '$API_KEY', C: 'x%API_KEY%' } },
      { env: { A: '${API_KEY}', B: '${API_KEY}', C: 'x%API_KEY%' } },
    ],
    [{ command: 'a', disabled: true }, { options: { disabled: true } }],
    [{ command: 'a', disabled: false, enabled: false }, { options: { disabled: true } }],
  ]
  for (const [entry, want] of rows) t.match(said(await one(entry)), want, JSON.stringify(entry))
  t.equal((await one({ command: 'a', enabled: true })).enabled, undefined, 'only TOML enables')
})

t.test('mcpNormalize tells what it changes and leaves out', async (t) => {
  const rows: [object, RegExp][] = [
    [{ command: 'a', headers: { A: 'b' } }, /x\.headers: ignored: stdio has none/],
    [{ url: 'https://h.example', args: ['a'], cwd: '/x' }, /x\.args: ignored[^]*x\.cwd: ignored/],
    [{ url: 'https://h.example', env: { A: 'b' } }, /x\.env: only fills placeholders/],
    [
      { url: 'https://h.example', serverUrl: 'https://i.example' },
      /x\.serverUrl: ignored: it stands there/,
    ],
    [{ command: 'a', name: 'Other' }, /Other/],
    [{ command: 'a', enabled: true }, /x\.enabled/],
    [{ command: 'a', env: { K: '{env:Y}' } }, /x\.env\.K: its placeholders are written/],
    [{ command: 'a b' }, /x\.command: is split into 2 words/],
    [{ command: 'a', 'b\u001b[31m': 1 }, /x\.b\\e\[31m: ignored/],
    ...['hooks', 'envFile', 'requestHeadersCommand', 'autoAuth', 'trust', 'always_allow'].map(
      (key): [object, RegExp] => [
        { command: 'a', [key]: ['x'] },
        new RegExp(`x\\.${key}: refused`),
      ],
    ),
  ]
  for (const [entry, note] of rows) t.match(await notesOf(entry), note, JSON.stringify(entry))
  t.equal(await notesOf({ command: 'a', args: ['b'], env: { C: '${C}' }, disabled: false }), '')
})

t.test('mcpNormalize refuses what could never start, and says why', async (t) => {
  const rows: [object, RegExp][] = [
    [{}, /x: neither command nor url/],
    [{ command: '  ' }, /x.*command/],
    [{ command: [''] }, /x.*command/],
    [{ command: 'a "b' }, /x\.command: a quote is not closed/],
    [{ command: { a: 1 } }, /x: neither command nor url/],
    [{ socket: '/x' }, /x: neither command nor url/],
    [{ command: 'a', args: [{}] }, /x\.args\[0\] is not a string/],
    [{ command: 'a', args: [null] }, /x\.args\[0\] is not a string/],
    [{ command: 'a', env: { K: null } }, /x\.env\.K is not a string/],
    [{ command: 'a', env: ['K=v'] }, /x\.env is not an object/],
    [{ command: 'a', env: { 'K=': 'v' } }, /x\.env/],
    [{ url: 'wss://h.example' }, /x\.url is neither http/],
    [{ url: 'localhost:80/mcp' }, /x\.url is neither http/],
    [{ url: 'https://h.example', headers: { 'a b': 'c' } }, /x\.headers/],
    [{ url: 'https://h.example', type: 'stdio' }, /x: its type is stdio, but it has a url/],
    [{ command: 'a', type: 'http' }, /x: its type is http, but it has a command/],
    [{ command: 'a', uds: '/x' }, /x: command and uds/],
    [
      { url: 'https://h.example', env_http_headers: { A: 'not a name' } },
      /x\.env_http_headers\.A names no variable/,
    ],
  ]
  for (const [entry, why] of rows) t.match(await failure(one(entry)), why, JSON.stringify(entry))
  const { entries, rejects } = await mcpNormalize(
    JSON.stringify({ mcpServers: { bad: { args: [] }, good: { command: 'a' }, list: 3 } }),
  )
  t.strictSame(
    entries.map(({ name }) => name),
    ['good'],
  )
  t.equal(rejects.length, 1)
  t.type(rejects[0] as InvalidError, TaiError)
})

t.test('mcpNormalize keeps names that are sane, and makes others so', async (t) => {
  const nameOf = async (name: string) =>
    (await entriesOf(`{"mcpServers":{${JSON.stringify(name)}:{"command":"x"}}}`))[0]?.['name']
  for (const name of [
    'a',
    'My Server (1)',
    '__proto__',
    'constructor',
    'io.github.x/y',
    '@a/b',
    'größe',
    '天气',
  ])
    t.equal(await nameOf(name), name)
  t.equal(await nameOf(' a '), 'a')
  for (const name of ['--yes', 'a\u001b[31mb', '\u3164', 'x'.repeat(129)])
    t.match(await failure(nameOf(name)), /is no name/, name)
  const { entries, notes } = await mcpNormalize(
    '{"__proto__":{"command":"x","env":{"__proto__":"y"}}}',
  )
  t.equal(entries[0]?.name, '__proto__')
  t.ok(Object.hasOwn(entries[0]?.env ?? {}, '__proto__'))
  t.strictSame(notes, [])
  t.match(await entriesOf({ command: 'x' }), [{ name: 'server' }])
})

// --- at use ---

t.test('mcpExpandVars fills every field once', async (t) => {
  const entry = await one({
    command: '${BIN:-run}',
    args: ['${A}-${A}', '$5 $$ ${input:tok.en}'],
    env: { A: '${B}', B: 'b${C}', PATH: '/x:${PATH}', SELF: '${SELF:-none}', P: '${X}' },
    cwd: '~/w',
  })
  const env = { C: '${D}', PATH: '/bin', HOME: '/home/u', D: 'never' }
  const whole = await mcpExpandVars(
    entry,
    from(env, { 'tok.en': 's3cr3t', X: 'x-secret', unused: 'no' }),
  )
  t.strictSame(said(whole), {
    name: 'x',
    transport: 'stdio',
    command: 'run',
    args: ['b${D}-b${D}', '$5 $$ s3cr3t'],
    env: { A: 'b${D}', B: 'b${D}', P: 'x-secret', PATH: '/x:/bin', SELF: 'none' },
    cwd: '/home/u/w',
  })
  t.equal(entry.cwd, '~/w')
  t.equal(
    (await mcpExpandVars(await one({ command: 'a', cwd: '~' }), from({ USERPROFILE: 'C:\\u' })))
      .cwd,
    'C:\\u',
  )
  const own = await one({ url: 'https://h.example', headers: { A: 'k ${K}' }, env: { K: 'own' } })
  t.equal((await mcpExpandVars(own, from({ K: 'outer' }))).headers['A'], 'k own')
})

t.test('mcpExpandVars refuses rather than leave a placeholder', async (t) => {
  const rows: [object, McpLookup, RegExp][] = [
    [
      { command: 'a', args: ['x', '${M}'] },
      none,
      /x\.args: \$\{M\} is not set \| .*tai secret set M/,
    ],
    [
      { command: 'a', args: ['${input:id-1}'] },
      from({ 'id-1': 'env is not asked' }),
      /id-1.*tai secret set id-1/,
    ],
    [{ command: 'a', cwd: '${M}/x' }, none, /x\.cwd: \$\{M\}/],
    [{ command: 'a', env: { A: '${B}', B: '${A}' } }, none, /is not set/],
    [{ command: 'a', args: ['${A:-${B}}'] }, none, /\$\{B\} is not set/],
    [{ command: 'a', args: ['${A-b}'] }, none, /begins no placeholder/],
    [{ command: 'a', args: ['${A:-x'] }, none, /begins no placeholder/],
    [{ command: 'a', args: ['${config:x}'] }, none, /begins no placeholder/],
    [{ command: 'a', args: ['${'.repeat(200)] }, none, /begins no placeholder/],
    [
      { url: 'https://h.example', headers: { A: '${K}' } },
      from({ K: 'a\r\nb: c' }),
      /x\.headers holds a character/,
    ],
    [{ command: 'a', args: ['${K}'] }, from({ K: 'a\0' }), /x\.args holds a character/],
    [{ command: 'a', args: ['${K}'.repeat(2_000)] }, from({ K: 'x'.repeat(1_000) }), /too much/],
  ]
  for (const [entry, lookup, why] of rows)
    t.match(
      await failure(mcpExpandVars(await one(entry), lookup)),
      why,
      JSON.stringify(entry).slice(0, 80),
    )
  const laughs = Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => [`L${i}`, `\${L${i + 1}}\${L${i + 1}}`]),
  )
  t.match(
    await failure(mcpExpandVars(await one({ command: 'a', env: laughs }), from({ L60: 'ha' }))),
    /too much/,
  )
  t.match(
    await failure(
      mcpExpandVars(await one({ command: 'a', args: ['${K}'] }), from({}, { K: 's3cr3t\0' })),
    ),
    /^(?!.*s3cr3t)/,
  )
})

t.test('sourceKind tells sources apart', async (t) => {
  const rows: [string, ReturnType<typeof sourceKind>[]][] = [
    ['github', ['name']],
    ['My-Server_2', ['name']],
    ['https://mcp.example.com/mcp', ['url']],
    ['https://x.example/${PATH}', ['url']],
    ['https://raw.githubusercontent.com/a/b/main/.mcp.json', ['url']],
    ['https://github.com/a/b', ['github']],
    ['https://github.com/a/b/tree/main/src', ['github']],
    ['github.com/a/b.git', ['github']],
    ['git@github.com:a/b.git', ['github']],
    ['https://github.com/a', ['url']],
    ['npx -y @scope/server', ['command']],
    ['{"mcpServers":{}}', ['config']],
    ['"a": {}', ['config']],
    ['[mcp_servers.x]\ncommand = "a"', ['config']],
    ['```json\n{}\n```', ['config']],
  ]
  for (const [source, [kind]] of rows) t.equal(sourceKind(source), kind, source)
})

t.test('a type may be spelled as any host spells it, if it fits the address', async (t) => {
  const addresses: Record<string, object> = {
    command: { command: 'x' },
    url: { url: 'https://mcp.example/' },
    uds: { uds: '/tmp/x.sock' },
  }
  for (const [name, , needs, spellings] of TRANSPORTS)
    for (const type of spellings.split(' ')) {
      const { entries } = await mcpNormalize(JSON.stringify({ type, ...addresses[needs] }))
      t.equal(entries[0]?.transport, name, `${type} with ${needs}`)
    }
})
