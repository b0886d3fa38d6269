/* oxlint-disable max-lines-per-function -- one run each */
// 100,000 malformed requests, half of them over each transport: none crashes, hangs or leaks. The
// seed of the run is printed; TAI_FUZZ_SEED runs it again.
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import t from 'tap'
import { RPC_METHODS, RPC_NOTIFICATIONS, type Json } from '../tai.ts'
import { META, MODERN, pipe } from './fakes/piped.ts'
import { begin, serve } from './fakes/served.ts'

const EACH = 50_000
const WARM = 5_000
const LANES = 16
const seed = Number(process.env['TAI_FUZZ_SEED'] ?? Date.now() % 1_000_000)
t.comment(`seed ${seed}`)

/** Numbers that are the same for the same seed (mulberry32). */
function dice(from: number) {
  let state = from
  const roll = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number) => Math.floor(roll() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T
  return { below, pick, chance: (p: number) => roll() < p }
}

type Dice = ReturnType<typeof dice>

const METHODS = [...RPC_METHODS.keys(), ...RPC_NOTIFICATIONS.keys()]
// Those that neither wait nor reach out.
const TOOLS = ['read_file', 'list_dir', 'file_info', 'glob', 'grep', 'time_now', 'vault_read']
const TEXTS = [
  '',
  'a',
  '../../etc/passwd',
  '\0',
  '\u202e',
  '\ud800',
  '__proto__',
  'x'.repeat(5_000),
]
const NUMBERS = [0, -1, 1.5, 1e308, 2 ** 53, -0, 1e-7]

function value({ below, pick, chance }: Dice, depth = 0): Json {
  const kind = below(depth > 3 ? 4 : 7)
  if (kind === 0) return pick(TEXTS)
  if (kind === 1) return pick(NUMBERS)
  if (kind === 2) return chance(0.5)
  if (kind === 3) return null
  const again = () => value({ below, pick, chance }, depth + 1)
  if (kind < 6) return Array.from({ length: below(4) }, again)
  return Object.fromEntries(Array.from({ length: below(4) }, () => [pick(TEXTS), again()]))
}

const KEYS = [
  'path',
  'pattern',
  'uri',
  'cursor',
  'name',
  'arguments',
  'requestId',
  'protocolVersion',
]

function paramsOf(the: Dice, method: string): Json {
  if (the.chance(0.1)) return value(the)
  const params: Record<string, Json> = {}
  if (the.chance(0.4)) params['_meta'] = the.chance(0.7) ? META : value(the)
  if (method === 'tools/call') params['name'] = the.chance(0.8) ? the.pick(TOOLS) : value(the)
  if (method === 'resources/read')
    params['uri'] = `tai://workspace/${the.pick(TEXTS)}${the.pick(['', '%2e%2e', '%ff', 'a.txt'])}`
  for (let left = the.below(4); left > 0; left--) params[the.pick(KEYS)] ??= value(the)
  return params
}

const IDS = [1, 0, -1, 'a', '', null, 1.5, 1e300, true, {}, undefined] as const

function message(the: Dice): Record<string, unknown> {
  const method = the.chance(0.9) ? the.pick(METHODS) : value(the)
  return {
    jsonrpc: the.chance(0.97) ? '2.0' : value(the),
    id: the.chance(0.8) ? the.below(1_000) : the.pick(IDS),
    method,
    ...(the.chance(0.95) && { params: paramsOf(the, String(method)) }),
    ...(the.chance(0.03) && { result: value(the) }),
  }
}

const nest = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

/** One body or line: mostly JSON-RPC, else what only looks like it. */
function malformed(the: Dice): Buffer {
  const text = JSON.stringify(message(the))
  if (the.chance(0.7)) return Buffer.from(text)
  const bytes = Buffer.from(text)
  const kind = the.below(6)
  if (kind === 0) return bytes.subarray(0, the.below(bytes.length))
  if (kind === 1) return Buffer.from(`[${text}]`)
  if (kind === 2) return Buffer.from(text.replace('{', `{"id":9,"params":${nest(the.below(400))},`))
  if (kind === 3)
    return Buffer.from(Array.from({ length: the.below(40) }, () => 11 + the.below(245)))
  for (let left = 1 + the.below(4); left > 0; left--)
    bytes[the.below(bytes.length)] = 32 + the.below(224)
  return bytes
}

const rss = (pid: number | undefined): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** What a line without a reply counts as. */
const UNREAD = '"code":-32600'

/** What was answered: how many, how many of them got past the reading, and of which methods. */
function tally() {
  const met = new Set<string>()
  let [all, read] = [0, 0]
  const count = (sent: Buffer, reply: string) => {
    all += 1
    const code = /"code":(-\d+)/.exec(reply)?.[1]
    if (code === '-32700' || code === '-32600') return
    read += 1
    const method = /"method":"([a-z/]+)"/.exec(sent.toString())?.[1]
    if (method !== undefined && METHODS.includes(method)) met.add(method)
  }
  return { count, met, totals: () => ({ all, read }) }
}

const skip = process.platform !== 'linux' && 'memory is read from /proc'

t.test(`${EACH} over HTTP`, { skip, timeout: 200_000 }, async (t) => {
  const server = await serve(t, { args: ['--permission-mode', 'read-only', '--quiet'] })
  const the = dice(seed)
  const { count, met, totals } = tally()
  const peers = await Promise.all(Array.from({ length: LANES }, () => begin(server)))
  const sessions = peers.map(({ session }) => session)
  const agent = new http.Agent({ keepAlive: true, maxSockets: LANES })
  const post = (body: Buffer) =>
    new Promise<string>((resolve, reject) => {
      const name = /"(?:name|uri)":"([\w:/.%-]+)"/.exec(body.toString())?.[1]
      const method = /"method":"([a-z/]+)"/.exec(body.toString())?.[1]
      const isModern = body.includes(MODERN) && the.chance(0.9)
      const request = http.request(
        {
          port: server.port,
          host: '127.0.0.1',
          path: '/mcp',
          method: 'POST',
          agent,
          headers: {
            authorization: `Bearer ${server.key}`,
            'content-type': 'application/json',
            'content-length': body.length,
            ...(the.chance(0.9) && { 'mcp-session-id': the.pick(sessions) }),
            ...(isModern && { 'mcp-protocol-version': MODERN }),
            ...(isModern && method && { 'mcp-method': method }),
            ...(isModern && name && { 'mcp-name': name }),
          },
        },
        (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (piece: string) => (text += piece))
          response.on('end', () => resolve(`${response.statusCode} ${text}`))
        },
      )
      request.on('error', reject)
      request.end(body)
    })
  let before = 0
  const lane = async (share: number) => {
    for (let i = 0; i < share; i++) {
      const body = malformed(the)
      const reply = await post(body)
      if (!/^(200|202|400|404|503) /.test(reply)) t.fail(`${reply} for ${body.toString()}`)
      count(body, reply)
    }
  }
  const lanes = (many: number) =>
    Promise.all(Array.from({ length: LANES }, () => lane(Math.ceil(many / LANES))))
  await lanes(WARM)
  before = rss(server.child.pid)
  await lanes(EACH - WARM)
  const after = rss(server.child.pid)
  agent.destroy()
  const { all, read } = totals()
  t.ok(all >= EACH, `${all} are answered`)
  t.ok(read > all / 2, `${read} of ${all} were read as JSON-RPC`)
  t.strictSame([...met].toSorted(), METHODS.toSorted(), 'every method was reached')
  t.ok(after < 1.5 * before, `memory: ${before} kB, then ${after} kB`)
  t.match((await (await begin(server)).call('time_now')).body, { result: {} })
  t.equal(server.child.exitCode, null)
})

t.test(`${EACH} over stdio`, { skip, timeout: 200_000 }, async (t) => {
  const server = await pipe(t, { args: ['--permission-mode', 'read-only', '--quiet'] })
  const the = dice(seed + 1)
  const { count, met, totals } = tally()
  let before = 0
  // A marker after each batch: all before it were answered, or need no answer.
  for (let sent = 0; sent < EACH; ) {
    const batch = Array.from({ length: 100 }, () => malformed(the)).filter((it) => !it.includes(10))
    server.child.stdin.write(
      Buffer.concat(batch.map((line) => Buffer.concat([line, Buffer.from('\n')]))),
    )
    const replies: { id?: unknown }[] = []
    const marker = `marker ${sent}`
    const last = new Promise<void>((resolve) => {
      const hear = async (): Promise<void> => {
        const reply = await server.next()
        if (reply.id === marker) return resolve()
        replies.push(reply)
        return hear()
      }
      void hear()
    })
    server.say({ jsonrpc: '2.0', id: marker, method: 'tools/call', params: { name: 'time_now' } })
    await last
    sent += batch.length
    const byId = new Map(replies.map((reply) => [JSON.stringify(reply.id), JSON.stringify(reply)]))
    for (const line of batch) {
      const id = /"id":([^,}]+)/.exec(line.toString())?.[1] ?? ''
      count(line, byId.get(id) ?? UNREAD)
    }
    if (before === 0 && sent >= WARM) before = rss(server.child.pid)
  }
  const after = rss(server.child.pid)
  t.ok(totals().all >= EACH)
  t.strictSame([...met].toSorted(), METHODS.toSorted(), 'every method was reached')
  t.ok(after < 1.5 * before, `memory: ${before} kB, then ${after} kB`)
  const id = 'the last'
  server.say({ jsonrpc: '2.0', id, method: 'server/discover', params: { _meta: META } })
  let reply = await server.next()
  while (reply.id !== id) reply = await server.next() // lists may come later
  t.match(reply, { result: {} })
  server.child.stdin.end()
  t.match(await server.done, { code: 0 })
})
