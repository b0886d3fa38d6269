// bench.ts: what tai costs, beside something everyone can run, in one run and as ratios. Two noisy
// cores give no times worth keeping, but two programs run in turns meet the same noise.
//
//   node tests/bench.ts [--rounds N] [--only NAME] [--json]
//
// --json prints exactly one object {machine, date, rows}; progress goes to stderr.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { binary } from './fakes/binary.ts'
import { makeBigVault } from './fakes/bigvault.ts'

/** `ratio` is the median of the pairs' ratios tai/other (or the figure itself, where there is no
 * other); `tai` and `other` are the medians of the two sides. */
type Row = {
  name: string
  ratio: number
  budget: number
  met: boolean
  unit: 'ms' | 'MiB' | 'MB'
  tai: number
  other?: number
  pairs?: number
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

const ROWS = { version, oneShot, openVault, size }

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
    high = Math.max(high, highWater(child))
    await setImmediate()
  }
  if (child.exitCode !== 0) throw new Error(`${run.argv.join(' ')} exited ${child.exitCode}`)
  return high / 1024
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

function highWater(child: ChildProcess): number {
  try {
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0)
  } catch {
    return 0 // gone between the question and the answer
  }
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

// --- the report ---

function row(name: string, budget: number, unit: Row['unit'], pairs: [number, number][]): Row {
  const ratio = median(pairs.map(([ours, theirs]) => ours / theirs))
  const sides = { tai: round(median(pairs.map(([ours]) => ours))) }
  const met = ratio <= budget
  const base = { name, ratio: round(ratio), budget, met, unit, ...sides }
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
    `<= ${r.budget}`,
    r.met ? 'met' : 'OVER',
    `${r.tai} ${r.unit}${r.other === undefined ? '' : ` against ${r.other}`}`,
  ])
  const widths = [0, 1, 2, 3].map((i) => Math.max(...cells.map((c) => c[i]!.length)))
  return cells.map((c) => c.map((text, i) => text.padEnd(widths[i] ?? 0)).join('  ')).join('\n')
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
