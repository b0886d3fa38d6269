// bench.ts: what tai costs, beside something everyone can run, in one run and as ratios. Two noisy
// cores give no times worth keeping, but two programs run in turns meet the same noise.
//
//   node tests/bench.ts [--rounds N] [--only NAME] [--json]
//
// --json prints exactly one object {machine, date, rows}; progress goes to stderr.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { binary } from './fakes/binary.ts'
import { makeBigVault } from './fakes/bigvault.ts'
import { entryOf } from './fakes/entry.ts'
import type { Load, Loaded } from './fakes/load.ts'
import { peer } from './fakes/peers.ts'
import { never, openWorld } from './fakes/world.ts'

/** Which side of the budget a ratio is to be on. */
type Bound = 'at most' | 'at least'
type Unit = 'ms' | 'MiB' | 'MB' | 'calls/s'

/** `ratio` is the median of the pairs' ratios tai/other (or the figure itself, where there is no
 * other); `tai` and `other` are the medians of the two sides. */
type Row = {
  name: string
  ratio: number
  budget: number
  bound: Bound
  met: boolean
  unit: Unit
  tai: number
  other?: number
  pairs?: number
  cpu?: { tai_us: number; other_us: number } // of the servers, for one call
}

/** A command, run in a home of its own. */
type Run = {
  argv: readonly [string, ...string[]]
  input?: string
  env?: Record<string, string>
  /** Where a home stands that is used again and again; else each run gets a fresh one. */
  home?: string
}

const { values: flags } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '21' },
    only: { type: 'string', default: '' },
  },
})
const rounds = Number(flags.rounds)
const data = (file: string) => fileURLToPath(new URL(`data/${file}`, import.meta.url))
const fake = (file: string) => fileURLToPath(new URL(`fakes/${file}`, import.meta.url))
const tai = await binary()

// --- the rows ---

/** The nearest thing to nothing: the same Node, asked for no work. */
async function version(): Promise<Row[]> {
  const ours: Run = { argv: [tai, '--version'] }
  const theirs: Run = { argv: [process.execPath, '-e', '0'] }
  return [
    row('--version, wall', 1.15, 'ms', await paired(ours, theirs, wall)),
    row('--version, CPU', 1.15, 'ms', await paired(ours, theirs, cpu)),
  ]
}

/** One question and its answer, against a model server that answers at once. */
async function oneShot(): Promise<Row[]> {
  await using server = await startFake()
  const env = {
    OPENAI_BASE_URL: `http://127.0.0.1:${server.port}/v1`,
    OPENAI_API_KEY: 'sk-fake',
    TAI_MODEL: 'openai/fake-model',
  }
  using home = temporary() // the vault is there after the first round, as it is for a person
  const ours: Run = { argv: [tai], input: 'hi\n', env, home: home.path }
  const theirs: Run = { argv: [process.execPath, data('one-fetch.mjs')], input: 'hi\n', env }
  const rows = [
    row('echo hi | tai, wall', 0.7, 'ms', await paired(ours, theirs, wall)),
    row('echo hi | tai, CPU', 0.7, 'ms', await paired(ours, theirs, cpu)),
  ]
  // Only Linux tells the peak of another process without a program to be installed.
  if (process.platform === 'linux')
    rows.push(row('echo hi | tai, peak memory', 0.9, 'MiB', await paired(ours, theirs, peak)))
  return rows
}

/** A command that opens the vault, with much in it and with nothing. */
async function openVault(): Promise<Row[]> {
  using full = temporary()
  using empty = temporary()
  await makeBigVault(full.path, 1_000_000)
  await makeBigVault(empty.path, 0)
  const list = (home: string): Run => ({ argv: [tai, 'session', 'list', '--json'], home })
  const pairs = await paired(list(full.path), list(empty.path), wall)
  return [row('vault of 1,000,000 audit rows, opened', 1.5, 'ms', pairs)]
}

/** Not a ratio: megabytes against the megabytes allowed. */
async function size(): Promise<Row[]> {
  const megabytes = statSync(tai).size / 1e6
  return [row('size of the binary', 125, 'MB', [[megabytes, 1]])]
}

const TIME: Load['asks'] = ['tools/call', { name: 'time_now', arguments: { tz: 'UTC' } }]
const LIST: Load['asks'] = ['tools/list', {}]
const [ONE, MANY] = [1, 16] // connections
const [WARM, WARM_MOST] = [30_000, 5_000] // calls that let a server compile what it uses; ms
const SERVED_KEY = 'the-key-of-the-bench'

/** Calls of the served tools, beside the official SDK's server and one that does nothing. */
async function servedCalls(): Promise<Row[]> {
  using home = temporary()
  await using client = startClient()
  await using ours = await startOurs(home)
  const answer = async (asks: Load['asks']) =>
    JSON.stringify((await client.load(ours, { connections: ONE, asks, calls: 1 })).result)
  const list = join(home.path, 'list.json')
  writeFileSync(list, await answer(LIST))
  const env = { PATH: process.env['PATH'], NODE_ENV: 'production' }
  await using sdk = await startServer([process.execPath, await sdkServer(), list], env)
  const echoArgs = [process.execPath, fake('echo.ts'), await answer(TIME)]
  await using echo = await startServer(echoArgs, env)
  const rates = (load: Asks, servers: readonly Server[]) => inTurns(client, load, servers)
  for (const server of [ours, sdk, echo])
    await client.load(server, { connections: MANY, asks: TIME, calls: WARM, ms: WARM_MOST })
  const one = await rates({ connections: ONE, asks: TIME }, [ours, sdk, echo])
  const many = await rates({ connections: MANY, asks: TIME }, [ours, sdk, echo])
  const lists = await rates({ connections: ONE, asks: LIST }, [ours, sdk])
  return [
    rateRow('served call, 1 connection, against the SDK', 3, one, 1),
    rateRow('served call, 16 connections, against the SDK', 4, many, 1),
    rateRow('served call, 1 connection, against a bare echo', 0.6, one, 2),
    rateRow('served call, 16 connections, against a bare echo', 0.6, many, 2),
    rateRow('tools/list against the SDK', 1, lists, 1),
  ]
}

/** What a server holds after many calls, against after few. Only Linux tells it of another process
 * without a program to be installed. */
async function servedMemory(): Promise<Row[]> {
  if (process.platform !== 'linux') return []
  using home = temporary()
  await using client = startClient()
  await using ours = await startOurs(home)
  const after = async (calls: number) => {
    await client.load(ours, { connections: MANY, asks: TIME, calls })
    return memory(ours.pid, 'VmRSS') / 1024
  }
  const few = await after(1_000)
  const many = await after(99_000)
  const name = 'memory after 100,000 served calls against after 1,000'
  return [{ ...row(name, 1.2, 'MiB', [[many, few]]), other: round(few) }]
}

const CALLS = 50 // of a block, whose median is one figure
const WARM_BLOCKS = 20 // not counted: until both have compiled what they use

/** A call of a server's tool with all that tai does about it (approval, drift, redaction, audit),
 * beside the official client alone; each has its own server, and they take turns. */
async function bridgedCall(): Promise<Row[]> {
  const args = { message: 'x' }
  const server = await peer('@modelcontextprotocol/server-everything/dist/index.js')
  const it = await openWorld({ mode: 'danger-full-access' })
  const entry = entryOf({ name: 'it', command: process.execPath, args: [server] })
  await it.bridge.add(entry, 'explicit', never)
  await it.bridge.enable('it', 'default')
  const sdk = '@modelcontextprotocol/sdk/dist/esm/client'
  const { Client: Official } = await import(await peer(`${sdk}/index.js`))
  const { StdioClientTransport } = await import(await peer(`${sdk}/stdio.js`))
  const client = new Official({ name: 'bench', version: '1' })
  await client.connect(new StdioClientTransport({ command: process.execPath, args: [server] }))
  const ours = () => it.tools.dispatch('mcp_it_echo', args, never)
  const theirs = () => client.callTool({ name: 'echo', arguments: args })
  const p50 = async (call: () => Promise<unknown>) => {
    const times: number[] = []
    for (let i = 0; i < CALLS; i++) {
      const began = performance.now()
      await call()
      times.push(performance.now() - began)
    }
    return median(times)
  }
  const pairs: [number, number][] = []
  for (let i = -WARM_BLOCKS; i < rounds; i++) {
    const pair: [number, number] = [await p50(ours), await p50(theirs)]
    if (i >= 0) pairs.push(pair)
  }
  await client.close()
  await it.close()
  return [row('bridged stdio call, p50, beside the official client', 1, 'ms', pairs)]
}

const ROWS = { version, oneShot, openVault, size, servedCalls, servedMemory, bridgedCall }

// --- measuring ---

type Measure = (run: Run) => Promise<number>

/** Both sides in turns, the first of a pair changing, after one round that warms the caches. */
async function paired(ours: Run, theirs: Run, measure: Measure): Promise<[number, number][]> {
  const pairs: [number, number][] = []
  for (let turn = -1; turn < rounds; turn++) {
    const first = turn % 2 === 0 ? ours : theirs
    const one = await measure(first)
    const two = await measure(first === ours ? theirs : ours)
    if (turn >= 0) pairs.push(first === ours ? [one, two] : [two, one])
  }
  return pairs
}

/** From before the start to after the end, in ms. */
async function wall(run: Run): Promise<number> {
  using home = homeOf(run)
  const [file, ...args] = run.argv
  using stdin = pipeOf(run.input ?? '')
  const env = envOf(run, home.path)
  const from = performance.now()
  const done = spawnSync(file, args, { env, stdio: [stdin.fd, 'pipe', 'pipe'] })
  const took = performance.now() - from
  if (done.status !== 0)
    throw new Error(`${run.argv.join(' ')} exited ${done.status}: ${done.stderr}`)
  return took
}

const BATCH = 10

/** User and system time of one run, in ms. Node cannot ask for a child's; a shell's `times` can, in
 * steps of up to 10 ms, so it sums a batch. */
async function cpu(run: Run): Promise<number> {
  const homes = Array.from({ length: BATCH }, () => homeOf(run))
  const body = homes
    .map(
      (home) => `printf %s "$TAI_BENCH_INPUT" | TAI_HOME='${home.path}' "$@" >/dev/null || exit 1`,
    )
    .join('\n')
  const env = { ...envOf(run, homes[0]!.path), TAI_BENCH_INPUT: run.input ?? '' }
  const done = spawnSync('sh', ['-c', `${body}\ntimes`, 'sh', ...run.argv], {
    env,
    encoding: 'utf8',
  })
  for (const home of homes) home[Symbol.dispose]()
  if (done.status !== 0) throw new Error(`${run.argv.join(' ')} failed: ${done.stderr}`)
  const children = done.stdout.trim().split('\n').at(-1) ?? ''
  const parts = [...children.matchAll(/(\d+)m([\d.]+)s/g)]
  return (parts.reduce((sum, [, m, s]) => sum + Number(m) * 60 + Number(s), 0) * 1000) / BATCH
}

/** The most memory resident at once, in MiB: the kernel's own high-water mark, read until the
 * process is gone, so at most what it grew by in its last tenth of a millisecond is missed.
 * (getrusage's maxrss would count the parent's memory too, as of before the exec.) */
async function peak(run: Run): Promise<number> {
  using home = homeOf(run)
  const [file, ...args] = run.argv
  using stdin = pipeOf(run.input ?? '')
  const env = envOf(run, home.path)
  const child = spawn(file, args, { env, stdio: [stdin.fd, 'ignore', 'ignore'] })
  let high = 0
  while (child.exitCode === null && child.signalCode === null) {
    high = Math.max(high, memory(child.pid, 'VmHWM'))
    await setImmediate()
  }
  if (child.exitCode !== 0) throw new Error(`${run.argv.join(' ')} exited ${child.exitCode}`)
  return high / 1024
}

const ROUND = 150 // ms of load on a server before it is another's turn

/** Calls per second, and microseconds of CPU that each took: those do not change with what else
 * the machine has to do. */
type Rate = { rate: number; cpu: number }

/** The rates of each round, by server; the first round does not count. */
async function inTurns(client: Client, load: Asks, servers: readonly Server[]): Promise<Rate[][]> {
  const found: Rate[][] = []
  for (let turn = -1; turn < rounds; turn++) {
    const rates: Rate[] = []
    for (const [place] of servers.entries()) {
      const at = (place + turn + 1) % servers.length // no server always follows the same one
      const server = servers[at]!
      const before = cpuTime(server.pid)
      const { calls, ms } = await client.load(server, { ...load, ms: ROUND })
      const cpu = (cpuTime(server.pid) - before) / calls
      rates[at] = { rate: calls / (ms / 1000), cpu }
    }
    if (turn >= 0) found.push(rates)
  }
  return found
}

/** The first server's rates beside those of the one at `at`. */
function rateRow(name: string, budget: number, turns: readonly Rate[][], at: number): Row {
  const pairs = turns.map((each): [number, number] => [each[0]!.rate, each[at]!.rate])
  const it = row(name, budget, 'calls/s', pairs)
  const [tai_us = 0, other_us = 0] = [0, at].map((place) =>
    round(median(turns.map((each) => each[place]!.cpu))),
  )
  const cpu = process.platform === 'linux' ? { tai_us, other_us } : undefined
  return { ...it, bound: 'at least', met: it.ratio >= budget, ...(cpu && { cpu }) }
}

/** A pipe that holds its data and its end, as a shell makes one; what Node would give is a socket. */
function pipeOf(input: string): Disposable & { fd: number } {
  const folder = temporary()
  const file = join(folder.path, 'pipe')
  spawnSync('mkfifo', [file])
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  writeFileSync(file, input)
  const close = () => {
    closeSync(fd)
    folder[Symbol.dispose]()
  }
  return { fd, [Symbol.dispose]: close }
}

/** What the kernel says of a process's memory, in KiB: the most so far, or what it is now. */
function memory(pid: number | undefined, what: 'VmHWM' | 'VmRSS'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(new RegExp(`^${what}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
  } catch {
    return 0 // gone between the question and the answer
  }
}

/** Time on a core of all threads of a process, in microseconds, where the kernel tells it. */
function cpuTime(pid: number | undefined): number {
  if (process.platform !== 'linux') return 0
  const tasks = `/proc/${pid}/task`
  const spent = (task: string) =>
    Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0])
  return readdirSync(tasks).reduce((sum, task) => sum + spent(task), 0) / 1000
}

type Home = Disposable & { path: string }

function temporary(): Home {
  const path = mkdtempSync(join(tmpdir(), 'tai-bench-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

function homeOf({ home }: Run): Home {
  return home === undefined ? temporary() : { path: home, [Symbol.dispose]: () => {} }
}

function envOf({ env }: Run, home: string): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], HOME: home, TAI_HOME: home, ...env }
}

/** The fake model server, in a process of its own: its work must not count as tai's. */
async function startFake(): Promise<AsyncDisposable & { port: string }> {
  const folder = temporary()
  const file = join(folder.path, 'port')
  const args = [data('fake-chat.mjs'), '--port', '0', '--port-file', file]
  const child = spawn(process.execPath, args, { stdio: 'ignore' })
  for (let tries = 0; !existsSync(file) || readFileSync(file, 'utf8') === ''; tries++) {
    if (tries > 200) throw new Error('the fake model server did not start')
    await setTimeout(50)
  }
  const stop = async () => {
    child.kill()
    folder[Symbol.dispose]()
  }
  return { port: readFileSync(file, 'utf8'), [Symbol.asyncDispose]: stop }
}

/** A server, and a client that loads it, each on a core of its own where there is a way to say so. */
const [SERVER_CORE, CLIENT_CORE] = ['0', '1'].map((core) => {
  const command = ['taskset', '-c', core]
  return spawnSync(command[0]!, [...command.slice(1), 'true']).status === 0 ? command : []
})

type Asks = Pick<Load, 'connections' | 'asks'>
type Server = AsyncDisposable & { url: string; pid: number | undefined }

/** Starts a server that prints its URL first. */
async function startServer(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<Server> {
  const [file = '', ...args] = [...(SERVER_CORE ?? []), ...argv]
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const lines = createInterface(child.stdout)
  const [url] = await Promise.race([once(lines, 'line'), once(child, 'exit')])
  if (typeof url !== 'string') throw new Error(`${argv.join(' ')} did not start`)
  return { url, pid: child.pid, [Symbol.asyncDispose]: () => end(child) }
}

function startOurs({ path }: Home): Promise<Server> {
  const argv = [tai, '--serve-mcp', SERVED_KEY, '--mcp-port', '0', '--root', path] as const
  return startServer(argv, envOf({ argv }, path))
}

type Client = AsyncDisposable & {
  load: (server: Server, load: Omit<Load, 'url' | 'key'>) => Promise<Loaded>
}

function startClient(): Client {
  const [file = '', ...args] = [...(CLIENT_CORE ?? []), process.execPath, fake('load.ts')]
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const gone = once(child, 'exit')
  const load: Client['load'] = async ({ url }, what) => {
    child.send({ ...what, url, key: SERVED_KEY } satisfies Load)
    const [said] = await Promise.race([once(child, 'message'), gone])
    if (said?.ms === undefined) throw new Error(`no load on ${url}: ${said?.problem ?? said}`)
    return said
  }
  return { load, [Symbol.asyncDispose]: () => end(child) }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill()
  await gone
}

/** The official SDK's server, whose package is installed where it is missing. */
async function sdkServer(): Promise<string> {
  await peer('@modelcontextprotocol/sdk')
  return fileURLToPath(new URL('peers/time-server.mjs', import.meta.url))
}

// --- the report ---

function row(name: string, budget: number, unit: Unit, pairs: [number, number][]): Row {
  const ratio = median(pairs.map(([ours, theirs]) => ours / theirs))
  const sides = { tai: round(median(pairs.map(([ours]) => ours))) }
  const met = ratio <= budget
  const base = { name, ratio: round(ratio), budget, bound: 'at most', met, unit, ...sides } as const
  if (pairs.length === 1) return base
  return { ...base, other: round(median(pairs.map(([, theirs]) => theirs))), pairs: pairs.length }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const high = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2
}

function round(value: number): number {
  return Number(value.toPrecision(4))
}

function table(rows: readonly Row[]): string {
  const cells = rows.map((r) => [
    r.name,
    String(r.ratio),
    `${r.bound} ${r.budget}`,
    r.met ? 'met' : 'MISSED',
    `${r.tai} ${r.unit}${r.other === undefined ? '' : ` against ${r.other}`}`,
    r.cpu === undefined ? '' : `${r.cpu.tai_us} us of CPU against ${r.cpu.other_us}`,
  ])
  const widths = [0, 1, 2, 3, 4].map((i) => Math.max(...cells.map((c) => c[i]!.length)))
  return cells
    .map((c) =>
      c
        .map((text, i) => text.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

const rows: Row[] = []
for (const [name, make] of Object.entries(ROWS)) {
  if (!name.includes(flags.only)) continue
  console.error(`measuring ${name}`)
  rows.push(...(await make()))
}
const [first] = cpus()
const machine = `${cpus().length} x ${first?.model.trim()}, ${process.platform}-${process.arch}, Node ${process.version}`
const report = { machine, date: new Date().toISOString(), rows }
console.log(flags.json ? JSON.stringify(report) : `${machine}\n${table(rows)}`)
