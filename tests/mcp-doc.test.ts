// mcp.md, held to the code in both directions: what the code has the page names, and what the page
// names the code has. Its examples are run.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t from 'tap'
import * as program from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { ended, modelEnv, start, tai } from './fakes/tai.ts'

const {
  COMMANDS,
  FLAGS,
  HOUR,
  KB,
  MB,
  MCP_DEFAULT_PORT,
  MCP_VERSIONS,
  MIGRATIONS,
  MINUTE,
  RPC_CODES,
  RPC_METHODS,
  RPC_NOTIFICATIONS,
  SECOND,
  SETTINGS,
  TOOLS,
  TRANSPORTS,
  UNBOUND,
  variableOf,
  VERDICTS,
} = program
const file = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')
const page = file('mcp.md')
const source = file('tai.ts')

// What the code has.

const exported = Object.keys(program)
const caps = Object.entries(program).filter(
  (row): row is [string, number] => row[0].startsWith('MCP_') && typeof row[1] === 'number',
)
const tables = MIGRATIONS.flatMap((sql) =>
  [...sql.matchAll(/CREATE TABLE (mcp_\w+)/g)].map(([, name = '']) => name),
)
const settings = SETTINGS.filter(({ key }) => key.startsWith('mcp_'))
const flags = FLAGS.map(({ name }) => `--${name}`)
const methods = [...RPC_METHODS.keys()]
const notifications = [...RPC_NOTIFICATIONS.keys()]
const verbs = COMMANDS.find(({ name }) => name === 'mcp')?.verbs.map(({ name }) => name) ?? []
const agentTools = TOOLS.filter(({ name }) => name.startsWith('mcp_')).map(({ name }) => name)
const served = source.slice(
  source.indexOf('//#region §serve:'),
  source.indexOf('//#endregion §listen'),
)
const statuses = [...served.matchAll(/(?<![\w.])[2-5]\d\d(?![\d_.])/g)].map(([status]) => status)
const BY_NODE = ['408', '431'] // answered by node:http itself

const NAMESPACES =
  'completion|elicitation|logging|notifications|prompts|resources|roots|sampling|server|tasks|tools'
const UNITS: Record<string, number> = { KB, MB, ms: 1, s: SECOND, min: MINUTE, h: HOUR, '': 1 }

/** A value as the page writes it; NaN if it is none. */
function valueOf(text: string): number {
  const [, number, unit = ''] = /^(\d[\d.]*) ?([A-Za-z]*)$/.exec(text) ?? []
  return Number(number) * (UNITS[unit] ?? NaN)
}

/** The cells of the table whose header begins with `header`. */
function rows(text: string, header: string): string[][] {
  const from = text.indexOf(`\n| ${header} |`)
  const [, , ...lines] = text.slice(from + 1).split('\n')
  const end = lines.findIndex((line) => !line.startsWith('|'))
  if (from < 0) return []
  return lines.slice(0, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

const ticked = (cell = ''): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
const firstNames = (text: string, header: string) =>
  rows(text, header).flatMap(([first]) => ticked(first))

const every = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([all, name]) => name ?? all)
const METHOD_NAME = new RegExp(`\\b(?:${NAMESPACES})/[a-z_/]+`, 'gi')
const verdictWord = (verdict: string) => (/run|say/.test(verdict) ? 'yes' : 'no')

/** What the page says of a kind, what the code has of it, and what it may say beside. */
type Check = [
  kind: string,
  says: (text: string) => string[],
  has: readonly string[],
  may?: string[],
]

// biome-ignore format: a table
const CHECKS: Check[] = [
  // its tables
  ['cap', (text) => rows(text, 'cap').map(([name, value = '']) => `${ticked(name)[0]} ${valueOf(value)}`),
    caps.map((row) => row.join(' '))],
  ['version', (text) => firstNames(text, 'version'), MCP_VERSIONS],
  ['method', (text) => rows(text, 'method').map(([name, needs]) => `${ticked(name)[0]} ${needs}`),
    [...RPC_METHODS].map(([name, { only }]) => `${name} ${only ? 'no' : 'yes'}`)],
  ['notification', (text) => firstNames(text, 'notification'), notifications],
  ['code', (text) => rows(text, 'code').map(([code, name]) => `${code} ${name}`),
    Object.entries(RPC_CODES).map(([name, code]) => `${code} ${name}`)],
  ['status', (text) => rows(text, 'status').map(([status = '']) => status), statuses, BY_NODE],
  ['table', (text) => firstNames(text, 'table'), tables],
  ['command', (text) => firstNames(text, '`tai mcp`'), verbs],
  ['agent tool', (text) => firstNames(text, 'agent tool'), agentTools],
  ['state', (text) => firstNames(text, 'a tool is'), ['offered', ...UNBOUND]],
  ['transport', (text) => firstNames(text, 'transport'), TRANSPORTS.map(([name]) => name)],
  ['flag', (text) => firstNames(text, 'flag'), flags.filter((name) => name.includes('mcp')), flags],
  ['setting', (text) => rows(text, 'setting').map((row) => row.slice(0, 2).flatMap(ticked).join(' ')),
    settings.map((row) => [row.key, row.standard].join(' ').trim())],
  ['mode', (text) => rows(text, 'mode').map(([name, ...cells]) =>
    [...ticked(name), ...cells.map((cell) => cell.replace(/,.*/, ''))].join(' ')),
    Object.entries(VERDICTS).map(([name, row]) => [name, ...Object.values(row).map(verdictWord)].join(' '))],
  // and all that it says
  ['name', (text) => every(text, /\bMCP_[A-Z_]+\b/g), [], exported],
  ['name', (text) => every(text, /\bmcp_[a-z_]+\b/g), [],
    [...tables, ...settings.map(({ key }) => key), ...agentTools, ...every(source, /'(mcp_[a-z_]+)'/g)]],
  ['variable', (text) => every(text, /\bTAI_[A-Z_]+\b/g),
    ['TAI_MCP_KEY', ...settings.map(({ key }) => variableOf(key))],
    ['TAI_HOME', 'TAI_SEAL_PASSPHRASE', ...SETTINGS.map(({ key }) => variableOf(key))]],
  ['flag', (text) => every(text, /(?<![\w-])--(?:mcp|serve)[a-z-]*/g), [], flags],
  ['method', (text) => every(text, METHOD_NAME), [],
    [...methods, ...notifications]],
  ['method', (text) => every(text, /"method":"([^"]*)"/g), [], [...methods, ...notifications]],
  ['code', (text) => every(text, /-32\d{3}\b/g), [], Object.values(RPC_CODES).map(String)],
  ['section', (text) => every(text, /§[a-z]+/g), ['§serve', '§listen'], every(source, /^\/\/#region (§[a-z]+)/gm)],
  ['export', (text) => rows(text, 'section of tai.ts').flatMap(([, what]) => ticked(what)), [], exported],
]

/** What the text says that is not so, and what is so and not said. */
function drift(text: string): string[] {
  return CHECKS.flatMap(([kind, says, has, may = []]) => {
    const said = says(text)
    const silent = has.filter((name) => !said.includes(name))
    const wrong = said.filter((name) => !has.includes(name) && !may.includes(name))
    return [
      ...silent.map((name) => `no ${kind} ${name}`),
      ...wrong.map((name) => `${kind} ${name}?`),
    ]
  })
}

t.test('it says what the code says, and no more', async (t) => {
  t.strictSame(drift(page), [])
  for (const [kind, says] of CHECKS)
    t.ok(says(page).length > 0, `it says something of each ${kind}`)
})

const without = (line: string): string => page.replace(new RegExp(`^\\| ${line}.*\\n`, 'm'), '')
const instead = (old: string, other: string): string => page.replaceAll(old, other)

// biome-ignore format: a table
const LIES: [what: string, text: string, found: string][] = [
  ['a cap left out', without('`MCP_QUEUE_MAX`'), 'no cap MCP_QUEUE_MAX 64'],
  ['a cap made up', `${page}\nMCP_QUEUE_MOST`, 'name MCP_QUEUE_MOST?'],
  ['a value', instead('| 64 KB |', '| 65 KB |'), 'cap MCP_RESULT_MAX 66560?'],
  ['a unit', instead('| 10 min |', '| 10 days |'), 'cap MCP_CHAT_TIMEOUT NaN?'],
  ['a version left out', without('`2025-03-26`'), 'no version 2025-03-26'],
  ['a version made up', instead('| `2025-03-26`', '| `2026-07-28`'), 'version 2026-07-28?'],
  ['a method left out', without('`tools/list`'), 'no method tools/list yes'],
  ['a method made up', `${page}\nprompts/list`, 'method prompts/list?'],
  ['a method in an example', instead('"method":"ping"', '"method":"pong"'), 'method pong?'],
  ['who needs a session', instead('| `ping` | no |', '| `ping` | yes |'), 'method ping yes?'],
  ['a notification', without('`notifications/cancelled`'), 'no notification notifications/cancelled'],
  ['a code left out', without('-32002'), 'no code -32002 busy'],
  ['a code made up', `${page}\n-32042`, 'code -32042?'],
  ['a status left out', without('413'), 'no status 413'],
  ['a status made up', instead('| 500 |', '| 501 |'), 'status 501?'],
  ['a table left out', without('`mcp_consents`'), 'no table mcp_consents'],
  ['a table made up', `${page}\nmcp_routes`, 'name mcp_routes?'],
  ['a command left out', without('`pins`'), 'no command pins'],
  ['an agent tool left out', without('`mcp_call`'), 'no agent tool mcp_call'],
  ['a state left out', without('`over_cap`'), 'no state over_cap'],
  ['a transport left out', without('`uds`'), 'no transport uds'],
  ['a flag left out', without('`--mcp-hosts`'), 'no flag --mcp-hosts'],
  ['a flag made up', `${page}\n--mcp-mount`, 'flag --mcp-mount?'],
  ['a default', instead('| `mcp_port` | `8765` |', '| `mcp_port` | `9000` |'), 'setting mcp_port 9000?'],
  ['a variable', instead('TAI_MCP_BIND', 'TAI_MCP_HOST'), 'no variable TAI_MCP_BIND'],
  ['a mode left out', without('`workspace-write`'), 'no mode workspace-write yes yes yes no'],
  ['what a mode lets through', instead('| `read-only` | yes | no |', '| `read-only` | yes | yes |'),
    'mode read-only yes yes no no?'],
  ['a section', instead('§listen', '§hear'), 'section §hear?'],
  ['an export', instead('`mcpServeMain`', '`serveMain`'), 'export serveMain?'],
]

t.test('every lie and every silence would be found', async (t) => {
  for (const [what, text, found] of LIES) {
    t.not(text, page, `${what}: the text is another`)
    t.ok(drift(text).includes(found), `${what}: ${found}`)
  }
})

const KEY = 'the-key-of-the-page'

/** A server of the built binary, and what it lists. */
async function serve(env: Record<string, string> = {}) {
  const child = await start(['--serve-mcp', '--mcp-port', '0'], {
    env: { TAI_MCP_KEY: KEY, ...env },
  })
  const over = ended(child)
  const [line] = await once(child.stdout, 'data')
  const url = String(line).trim()
  const post = (message: object, more: Record<string, string> = {}) =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}`, ...more },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...message }),
    })
  return {
    url,
    async list(): Promise<{ tools: Listed[] }> {
      const hello = await post({ method: 'initialize', params: {} })
      const session = { 'mcp-session-id': hello.headers.get('mcp-session-id') ?? '' }
      const reply = Object(await (await post({ method: 'tools/list' }, session)).json())
      return reply.result
    },
    async end() {
      child.kill('SIGINT')
      await over
    },
  }
}

type Listed = { name: string; inputSchema: { properties: object; required: string[] } }

/** A value with its types in place of its values. */
const shape = (value: unknown): unknown =>
  typeof value === 'object' && value !== null
    ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shape(inner)]))
    : typeof value

t.test('the two tools beside the native ones are the two that are served', async (t) => {
  const server = await serve()
  t.teardown(() => server.end())
  const { tools } = await server.list()
  const extras = tools.filter(({ name }) => !TOOLS.some((row) => row.name === name))
  const takes = extras.flatMap(({ name, inputSchema: { properties, required } }) =>
    Object.keys(properties).map((arg) => `${name} ${arg} ${required.includes(arg) ? 'yes' : 'no'}`),
  )
  const said = rows(page, 'tool').map(([name, arg, needed]) =>
    [...[name, arg].flatMap(ticked), needed].join(' '),
  )
  t.strictSame(said.toSorted(), takes.toSorted())
})

t.test(
  'its examples work when they are pasted',
  { skip: process.platform === 'win32' },
  async (t) => {
    const model = await startModel(() => ({ text: 'Four.' }))
    t.teardown(() => model.close())
    const server = await serve(modelEnv(model))
    t.teardown(() => server.end())
    const blocks = [...page.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block)
    const script = blocks.filter((block) => /^mcp /m.test(block)).join('')
    const known = `http://127.0.0.1:${MCP_DEFAULT_PORT}/mcp`
    t.match(script, known)
    const env = { PATH: process.env['PATH'] ?? '', TAI_MCP_KEY: KEY }
    const pasted = script.replace(known, server.url)
    const { stdout, stderr } = await promisify(execFile)('bash', ['--norc', '-ec', pasted], { env })
    t.equal(stderr, '')
    const replies = stdout.split('\n').filter((line) => line !== '')
    t.strictSame(
      replies.map((line) => Object.keys(JSON.parse(line)).at(-1)),
      Array(5).fill('result'),
    )
    const shown = [...page.matchAll(/```json\n(\{"jsonrpc.*)\n```/g)].map(([, json = '']) => json)
    t.strictSame(shape(JSON.parse(replies[2] ?? '')), shape(JSON.parse(shown[0] ?? '')))
    t.match(replies[3], '"text":"Four."')
    const structured = JSON.parse(replies[3] ?? '').result.structuredContent
    for (const name of Object.keys(structured)) t.match(page, `\`${name}\``)
    t.equal(model.requests.length, 2, 'chat and completions')
  },
)

t.test(
  'its client configuration is of the form that npm start prints, with the usual port',
  async (t) => {
    const [, json = ''] = /```json\n(\{\n[^]*?)```/.exec(page) ?? []
    const url = `http://127.0.0.1:${MCP_DEFAULT_PORT}/mcp`
    const tai = { type: 'http', url, headers: { Authorization: 'Bearer KEY' } }
    t.strictSame(JSON.parse(json), { mcpServers: { tai } })
  },
)

t.test('the start and the end are as it tells them', async (t) => {
  const env = { TAI_MCP_KEY: KEY, TAI_MCP_PORT: '0' }
  const spoken = await start(['--serve-mcp', '--json'], { env })
  const quiet = await start(['--serve-mcp', '--quiet'], { env })
  for (const [child, signal, code] of [
    [spoken, 'SIGINT', 130],
    [quiet, 'SIGTERM', 143],
  ] as const) {
    t.teardown(() => child.kill())
    const over = ended(child)
    const [line] = await once(child.stdout, 'data')
    child.kill(signal)
    const run = await over
    t.equal(run.code, code)
    t.match(page, `${code} after`)
    if (child === quiet) t.strictSame([run.out, run.err], [String(line), ''])
    else t.match(run.err, /THE KEY IS THE AUTHORIZATION/)
    t.notMatch(run.out + run.err, KEY)
    if (child === quiet) t.match(run.out, /^http:\/\/127\.0\.0\.1:\d+\/mcp\n$/)
    else for (const name of Object.keys(JSON.parse(run.out))) t.match(page, `\`${name}\``)
  }
  const keyless = await tai(['--serve-mcp'])
  t.equal(keyless.code, 2)
  t.match(keyless.err, 'export TAI_MCP_KEY="$(openssl rand -hex 24)"')
  t.match(page, 'export TAI_MCP_KEY="$(openssl rand -hex 24)"')
})
