// Other people's servers, whole, through the built binary: what a person pastes, agrees to and
// enables; what a model then uses; what is on record after it; and what happens when a server
// describes a tool otherwise than it did.
import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { peer } from './fakes/peers.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { binary } from './fakes/binary.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'

const RELAY = fileURLToPath(new URL('fakes/relay.mjs', import.meta.url))
const scope = '@modelcontextprotocol'

/** As Claude Desktop has it; `changed`: a file that makes `everything` describe echo otherwise. */
async function desktopConfig(home: string, changed: string): Promise<string> {
  const [everything, filesystem, memory] = await Promise.all(
    ['server-everything', 'server-filesystem', 'server-memory'].map((name) =>
      peer(`${scope}/${name}/dist/index.js`),
    ),
  )
  const command = process.execPath
  const relay = [RELAY, changed, 'Echoes back', 'Sends to strangers']
  return JSON.stringify({
    mcpServers: {
      everything: { command, args: [...relay, everything] },
      filesystem: { command, args: [filesystem, '${HOME}'] },
      memory: { command, args: [memory], env: { MEMORY_FILE_PATH: join(home, 'memory.json') } },
    },
  })
}

const USES_ALL: ModelTurn[] = [
  {
    calls: [
      { name: 'mcp_everything_echo', args: { message: 'over here' } },
      { name: 'mcp_filesystem_list_allowed_directories', args: {} },
      {
        name: 'mcp_memory_create_entities',
        args: { entities: [{ name: 'tai', entityType: 'program', observations: ['small'] }] },
      },
    ],
  },
  { text: 'done' },
]

type Row = { data: { server: string; tool: string; outcome: string; digest: string } }

async function callsOnRecord(home: string): Promise<string[]> {
  const { out } = await tai(['audit', 'list', '--kind', 'mcp-call', '--json'], { home })
  const rows: Row[] = JSON.parse(out).entries
  return rows.map(({ data }) => `${data.server} ${data.tool} ${data.outcome}`).toReversed()
}

t.test('a pasted configuration of three real servers, used by a model in one turn', async (t) => {
  const home = folder()
  const changed = join(home, 'changed')
  const mcp = (...args: string[]) => tai(['mcp', ...args], { home })
  const added = await tai(['mcp', 'add', '-', '--yes'], {
    home,
    stdin: await desktopConfig(home, changed),
  })
  t.equal(added.code, 0, added.err)
  t.match(added.err, /filesystem starts: .*server-filesystem.*\$\{HOME\}/)
  t.match(added.err, /fills in: HOME \(the environment\)/)
  t.match(added.out, /everything: stdio, 13 tools: echo/)
  for (const name of ['everything', 'filesystem', 'memory'])
    t.equal((await mcp('enable', name)).code, 0)
  const model = await startModel(USES_ALL)
  t.teardown(() => model.close())
  const env = modelEnv(model)
  const run = await tai(['--yolo', '--json', 'use them all'], { env, home })
  t.equal(run.code, 0, run.err)
  const replies = model.requests[1]?.body.messages.filter(
    ({ role }: { role: string }) => role === 'tool',
  )
  t.match(
    replies?.map(({ content }: { content: string }) => content),
    [/Echo: over here/, new RegExp(home), /"name": "tai"/],
  )
  t.strictSame(await callsOnRecord(home), [
    'everything echo ok',
    'filesystem list_allowed_directories ok',
    'memory create_entities ok',
  ])

  writeFileSync(changed, '')
  model.push({ calls: [{ name: 'mcp_everything_echo', args: { message: 'x' } }] }, { text: 'no' })
  const second = await tai(['--yolo', 'again'], { env, home })
  t.match(second.err, /everything: 1 new or changed tool withheld; see `tai mcp pins everything`/)
  t.match(model.requests[3]?.body.messages.at(-1).content, /pin_pending/)
  const pins = await mcp('pins', 'everything')
  t.match(pins.out, /changed: echo[\s\S]*^-Echoes back[\s\S]*^\+Sends to strangers/m)
  t.match((await mcp('tools', 'everything')).out, /mcp_everything_echo +pin_pending/)
  t.match((await mcp('pins', 'everything', '--grant', 'echo')).out, /granted echo/)
  model.push({ calls: [{ name: 'mcp_everything_echo', args: { message: 'y' } }] }, { text: 'ok' })
  await tai(['--yolo', 'again'], { env, home })
  t.match(model.requests[5]?.body.messages.at(-1).content, /Echo: y/)
  t.equal((await tai(['audit', 'verify'], { home })).code, 0)
})

const noTerminal = ptyAvailable ? false : 'no pseudo-terminal here'
t.test('on a terminal, what would be started is shown first', { skip: noTerminal }, async (t) => {
  const home = folder()
  const file = join(home, 'servers.json')
  writeFileSync(file, await desktopConfig(home, join(home, 'changed')))
  const env = { HOME: home, TAI_HOME: join(home, '.tai') }
  const steps = [
    { wait: /everything starts: .*relay\.mjs[\s\S]*Allow this\?/, type: 'y\r' },
    { wait: /filesystem starts: [\s\S]*Allow this\?/, type: 'n\r' },
    { wait: /memory starts: [\s\S]*MEMORY_FILE_PATH[\s\S]*Allow this\?/, type: 'y\r' },
  ]
  const shown = await runInPty(`${await binary()} mcp add ${file}`, steps, { env, columns: 200 })
  t.equal(shown.code, 1)
  t.match(shown.output, /starting everything/, 'while it starts')
  t.match(shown.output, /nobody agreed to this: filesystem/)
  const list = JSON.parse((await tai(['mcp', 'list', '--json'], { home })).out)
  t.same(
    list.servers.map(({ name }: { name: string }) => name),
    ['everything', 'memory'],
  )
})

// --- every kind of server ---

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const OLDER = file('peers/echo-server.mjs')
const NEWER = file('peers/newer-server.mjs')
const ECHO = { tool: 'echo', args: { text: 'hello' }, says: /^hello$/ }
const EVERYTHING = { tool: 'echo', args: { message: 'hello' }, says: /^Echo: hello$/ }
const node = process.execPath
const everything = () => peer(`${scope}/server-everything/dist/index.js`)

/** A server that prints its port. */
async function atPort(t: Teardown, argv: readonly string[]) {
  await everything() // all of tests/peers
  const child = spawn(node, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill())
  const [said] = await once(child.stdout, 'data')
  return { url: `http://127.0.0.1:${String(said).trim()}/` }
}

/** One that is given its port; it is there when it can be connected to. */
async function everythingOn(t: Teardown, mode: string, path: string) {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  taken.close()
  const env = { ...process.env, PORT: String(port) }
  const child = spawn(node, [await everything(), mode], { env, stdio: 'ignore' })
  t.teardown(() => child.kill())
  const isThere = async () => {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    return isOpen
  }
  for (let tries = 200; tries > 0 && !(await isThere()); tries--) await pause(50)
  return { url: `http://127.0.0.1:${port}${path}` }
}

type Teardown = { teardown(work: () => unknown): void }
type Kind = { entry: (t: Teardown) => Promise<object>; tool: string; args: object; says: RegExp }

const program = (...args: string[]) => ({
  ...ECHO,
  entry: async () => (await everything(), { command: node, args }),
})
const reached = (argv: string[], more: object = {}) => ({
  ...ECHO,
  entry: async (t: Teardown) => ({ ...(await atPort(t, argv)), ...more }),
})
const everythingAt = (mode: string, path: string, more: object = {}) => ({
  ...EVERYTHING,
  entry: async (t: Teardown) => ({ ...(await everythingOn(t, mode, path)), ...more }),
})

const KINDS: Record<string, Kind> = {
  'server-everything on stdio': {
    ...EVERYTHING,
    entry: async () => ({ command: node, args: [await everything()] }),
  },
  'server-everything over Streamable HTTP': everythingAt('streamableHttp', '/mcp'),
  'server-everything over the older SSE': everythingAt('sse', '/sse', { type: 'sse' }),
  'the SDK of 2025 on stdio': program(OLDER, 'stdio'),
  'the SDK of 2025 with JSON replies': reached([OLDER, 'json']),
  'the SDK of 2025 with event streams': reached([OLDER, 'events']),
  'the SDK of 2025 whose streams are cut': reached([OLDER, 'resume']),
  'the SDK of 2026 on stdio': program(NEWER),
  'the SDK of 2026 on stdio, stateless alone': program(NEWER, 'stdio', 'only'),
  'the SDK of 2026 over HTTP': reached([NEWER, 'http']),
  'the SDK of 2026 over HTTP, stateless alone': reached([NEWER, 'http', 'only']),
  'the SDK of 2026 over HTTP, told to be stateless': reached([NEWER, 'http'], { era: 'modern' }),
  "a script for Debian's python3": {
    entry: async () => ({ command: 'python3', args: [file('fakes/pyserver.py')] }),
    tool: 'shout',
    args: { text: 'hello' },
    says: /^HELLO$/,
  },
}

t.test('every kind of server: added, listed, called', { jobs: 2 }, async (t) => {
  for (const [name, { entry, tool, args, says }] of Object.entries(KINDS))
    void t.test(name, async (t) => {
      const home = folder()
      const stdin = JSON.stringify({ mcpServers: { it: await entry(t) } })
      const added = await tai(['mcp', 'add', '-', '--yes', '-P', 'default'], { home, stdin })
      t.equal(added.code, 0, added.err)
      const called = await tai(['mcp', 'call', 'it', tool, JSON.stringify(args)], { home })
      t.equal(called.code, 0, called.err)
      t.match(called.out.trim(), says)
    })
})
