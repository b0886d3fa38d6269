// A served tai among many clients: slow ones, long calls, many calls at once. Nobody waits for another.
import t from 'tap'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { MCP_CONNECTIONS_MAX, MCP_HEADERS_TIMEOUT, MCP_REQUEST_TIMEOUT, SECOND } from '../tai.ts'
import { startModel, stuck, type ModelTurn } from './fakes/model.ts'
import { begin, connect, KEY, rawPost, send, serve, textOf, type Peer } from './fakes/served.ts'
import { modelEnv, tai } from './fakes/tai.ts'

const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

/** How long each of some requests took, in ms, shortest first. */
type Times = readonly number[]
const median = (times: Times): number => Math.round(times[times.length >> 1] ?? NaN)
const worst = (times: Times): number => Math.round(times.at(-1) ?? NaN)
const slowOnes = (times: Times): number => times.filter((ms) => ms > SECOND).length

async function timed(work: () => Promise<{ status: number }>): Promise<number> {
  const began = performance.now()
  const { status } = await work()
  return status === 200 ? performance.now() - began : Infinity
}

type Slow = 'idle' | 'dribble' | 'half' | 'deaf'

// In ms, the earliest and the latest; a socket whose answers crawl away has its time twice.
const LIMITS: Record<Slow, readonly [from: number, to: number]> = {
  idle: [MCP_HEADERS_TIMEOUT - SECOND, MCP_HEADERS_TIMEOUT + 12 * SECOND],
  dribble: [MCP_HEADERS_TIMEOUT - SECOND, MCP_HEADERS_TIMEOUT + 12 * SECOND],
  half: [MCP_REQUEST_TIMEOUT - SECOND, MCP_REQUEST_TIMEOUT + 12 * SECOND],
  deaf: [MCP_REQUEST_TIMEOUT / 2, 2 * MCP_REQUEST_TIMEOUT + 15 * SECOND],
}

/** Calls until its answers, which it does not read, fill what there is to hold them. */
async function fill(
  { socket, write }: Awaited<ReturnType<typeof connect>>,
  peer: Peer,
): Promise<void> {
  socket.pause()
  const list = JSON.stringify({ ...ping, method: 'tools/list' })
  for (let i = 0; i < 1_000; i++) {
    write(rawPost(peer.server.port, list, `Mcp-Session-Id: ${peer.session}\r\n`))
    await peer.ask('ping') // so that few wait at a time
  }
}

/** A client that keeps its connection busy with next to nothing. */
async function slowClient(peer: Peer, kind: Slow) {
  const { port } = peer.server
  const line = await connect(peer.server)
  const began = performance.now()
  if (kind === 'half') line.write(rawPost(port, '{"jsonr').replace('Length: 7', 'Length: 500000'))
  if (kind === 'deaf') await fill(line, peer)
  const head = Buffer.from(rawPost(port, ''))
  let sent = 0
  const dribble = () => {
    if (['dribble', 'deaf'].includes(kind) && line.socket.writable)
      line.write(head.subarray(sent, (sent += 1)))
  }
  const timer = setInterval(dribble, 2_000) // who does not read learns by writing that nobody is there
  const end = line.closed.then(() => {
    clearInterval(timer)
    return { kind, ms: Math.round(performance.now() - began), text: line.text }
  })
  return { end, isOpen: () => !line.socket.closed }
}

t.test('g07: slow clients are closed in time, and nobody notices them meanwhile', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const kinds: Slow[] = [
    ...Array(20).fill('idle'),
    ...Array(15).fill('dribble'),
    ...Array(15).fill('half'),
    'deaf',
  ]
  const slow = await Promise.all(kinds.map((kind) => slowClient(peer, kind)))
  const times: number[] = []
  while (slow.some((each) => each.isOpen()) && times.length < 90) {
    times.push(await timed(() => send(server, { body: ping })))
    await pause(SECOND)
  }
  times.sort((a, b) => a - b)
  t.equal(
    slowOnes(times),
    0,
    `${times.length} pings, median ${median(times)}, worst ${worst(times)} ms`,
  )
  for (const { end } of slow) {
    const { kind, ms, text } = await end
    const [from, to] = LIMITS[kind]
    t.ok(ms > from && ms < to, `${kind}: ${ms} ms`)
    t.match(text, /^(HTTP\/1\.1 408 |$)/, kind)
  }
})

t.test('g13 A: a long chat holds up neither other sessions nor its own pings', async (t) => {
  const model = await startModel([stuck('I am at it')])
  t.teardown(() => model.close())
  const server = await serve(t, { env: modelEnv(model) })
  const talker = await begin(server)
  const stop = new AbortController()
  const chat = talker.call('chat', { message: 'take your time' }, stop.signal)
  chat.catch(() => {})
  const { over } = await model.seen(1)
  const other = await begin(server)
  for (const each of [
    () => other.ask('ping'),
    () => talker.ask('ping'),
    () => talker.ask('tools/list'),
    () => other.call('time_now'),
  ])
    t.ok((await timed(each)) < SECOND)
  // C: it leaves, and only its own chat ends.
  stop.abort()
  await over
  t.match(await other.ask('ping'), { status: 200 })
  t.equal(server.child.exitCode, null)
  t.notMatch(server.said.err, /EPIPE|write|Error/)
})

t.test('g13 B: two chats of one session are answered one after the other', async (t) => {
  const turns = ({ body }: { body: { messages: { content: string }[] } }): ModelTurn => ({
    text: `to ${body.messages.at(-1)?.content}`,
  })
  const model = await startModel(turns)
  t.teardown(() => model.close())
  const server = await serve(t, { env: modelEnv(model) })
  const peer = await begin(server)
  const replies = await Promise.all(['one', 'two'].map((message) => peer.call('chat', { message })))
  t.strictSame(replies.map(textOf).toSorted(), ['to one', 'to two'])
  const [first, second] = replies.map(({ body }) => body.result.structuredContent.session)
  t.equal(first, second)
  const { out } = await tai(['session', 'show', first, '--json'], { home: server.home })
  const roles = [...out.matchAll(/"role":\s*"(\w+)"/g)].map(([, role]) => role)
  t.strictSame(roles, ['user', 'assistant', 'user', 'assistant'])
})

t.test('g13 D: of calls at the same time each gets its own answer', async (t) => {
  const server = await serve(t)
  const [one, two] = [await begin(server), await begin(server)]
  const calls = Array.from({ length: 50 }, async (_, i) => {
    const peer = i % 2 === 0 ? one : two
    const params = { name: 'shell_exec', arguments: { command: `echo number ${i}` } }
    const { body } = await peer.post({
      jsonrpc: '2.0',
      id: `id ${i}`,
      method: 'tools/call',
      params,
    })
    return [body.id, body.result.content[0].text.trim()]
  })
  t.strictSame(
    await Promise.all(calls),
    Array.from({ length: 50 }, (_, i) => [`id ${i}`, `number ${i}`]),
  )
})

/** What twenty clients see of a server: the times of their pings and of their calls. */
async function crowd(peers: readonly Peer[]): Promise<{ pings: Times; calls: Times }> {
  const found = { pings: [] as number[], calls: [] as number[] }
  await Promise.all(
    peers.map(async (peer) => {
      for (let i = 0; i < 40; i++) {
        found.pings.push(await timed(() => peer.ask('ping')))
        found.calls.push(await timed(() => peer.call('time_now', { tz: 'UTC' })))
      }
    }),
  )
  for (const times of Object.values(found)) times.sort((a, b) => a - b)
  return found
}

t.test('twenty clients are answered alike, whether one is in a long chat or not', async (t) => {
  const model = await startModel([stuck('I am at it')])
  t.teardown(() => model.close())
  const server = await serve(t, { env: modelEnv(model) })
  const peers = await Promise.all(Array.from({ length: 20 }, () => begin(server)))
  const [talker, ...others] = peers
  await crowd(others) // warm
  const without = await crowd(others)
  const stop = new AbortController()
  const chat = talker?.call('chat', { message: 'take your time' }, stop.signal)
  chat?.catch(() => {})
  const { over } = await model.seen(1)
  const beside = await crowd(others)
  stop.abort()
  await over
  for (const kind of ['pings', 'calls'] as const) {
    const [a, b] = [without[kind], beside[kind]]
    t.comment(
      `${kind}: median ${median(a)} and ${median(b)} ms, worst ${worst(a)} and ${worst(b)} ms without and beside a chat`,
    )
    t.equal(b.length, 19 * 40)
    t.equal(slowOnes(b), 0, `${kind} that took over a second`)
    t.ok(median(b) < SECOND)
  }
})

t.test('connections over the limit are closed, and the others go on', async (t) => {
  const server = await serve(t)
  const lines = await Promise.all(
    Array.from({ length: MCP_CONNECTIONS_MAX }, () => connect(server)),
  )
  const [first] = lines
  first?.write(rawPost(server.port, JSON.stringify(ping)))
  await first?.says(/"result":\{\}/)
  const late = await connect(server)
  await late.closed
  t.equal(late.text, '')
  for (const { socket } of lines.slice(1)) socket.destroy()
  await once(lines.at(-1)?.socket ?? server.child, 'close')
  while ((await send(server, { body: ping }).catch(() => ({ status: 0 }))).status !== 200) {}
  first?.write(rawPost(server.port, JSON.stringify({ ...ping, id: 'again' })))
  await first?.says(/"id":"again"/)
  first?.socket.destroy()
  t.notMatch(server.said.err, KEY)
})
