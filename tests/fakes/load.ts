// A client that asks as fast as it is answered: what the bench loads servers with. Its parent sends
// a Load and gets a Loaded back, or { problem }; one request is under way on each connection, every
// reply is read whole and looked at. Connections stay open, and with them their sessions.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** `asks`: the method and its params. It ends after so many `calls` or `ms`. */
export type Load = Readonly<{
  url: string
  key: string
  connections: number
  asks: readonly [method: string, params: object]
  calls?: number
  ms?: number
}>
export type Loaded = Readonly<{ calls: number; ms: number; result: unknown }>

const HEAD_END = '\r\n\r\n'
const PARSED = 4096 // bytes: a longer reply is parsed once, then known by its length
const FIRST_ID = 10_000_000 // all ids are equally long, and so are the requests
const VERSION = '2025-11-25'
const HELLO = {
  protocolVersion: VERSION,
  capabilities: {},
  clientInfo: { name: 'load', version: '1' },
}

/** A request up to the value of its id. */
const requestOf = ([method, params]: Load['asks']): string =>
  `${JSON.stringify({ jsonrpc: '2.0', method, params }).slice(0, -1)},"id":`

/** A connection with its session. */
class Line {
  readonly #socket: Socket
  #head: string
  #reply = Promise.withResolvers<Buffer>()
  #held: Buffer = Buffer.alloc(0)
  #id = FIRST_ID
  #known = -1 // length of a long reply that was found right
  result: unknown

  private constructor(socket: Socket, { url, key }: Load) {
    this.#socket = socket.setNoDelay()
    const { host, pathname } = new URL(url)
    const headers = [
      `POST ${pathname} HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${key}`,
      'Content-Type: application/json',
      'Accept: application/json, text/event-stream',
      `MCP-Protocol-Version: ${VERSION}`,
    ]
    this.#head = `${headers.join('\r\n')}\r\n`
    socket.on('data', (piece: Buffer) => this.#take(piece))
    socket.on('error', (error) => this.#reply.reject(error))
    socket.on('close', () => this.#reply.reject(new Error('the connection was closed')))
    this.#reply.promise.catch(() => {}) // while nothing is asked, nobody is told
  }

  static async open(load: Load): Promise<Line> {
    const { hostname, port } = new URL(load.url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    const line = new Line(socket, load)
    const hello = await line.ask(requestOf(['initialize', HELLO]))
    const session = /^mcp-session-id: *(\S+)/im.exec(hello)?.[1]
    if (session !== undefined) line.#head += `Mcp-Session-Id: ${session}\r\n`
    return line
  }

  /** One request and its reply, which is checked; returns the reply's head. */
  async ask(request: string): Promise<string> {
    const id = this.#id++
    const length = request.length + `${FIRST_ID}`.length + 1
    this.#reply = Promise.withResolvers()
    this.#socket.write(`${this.#head}Content-Length: ${length}${HEAD_END}${request}${id}}`)
    const reply = await this.#reply.promise
    const start = reply.indexOf(HEAD_END)
    const head = reply.toString('latin1', 0, start)
    if (!head.startsWith('HTTP/1.1 200 ')) throw new Error(`answered ${reply}`)
    this.#check(reply.subarray(start + HEAD_END.length), id)
    return head
  }

  #check(body: Buffer, id: number): void {
    if (body.length === this.#known && body.includes(`"id":${id}`)) return
    const said = JSON.parse(body.toString())
    if (said.id !== id || said.result === undefined || said.result.isError === true)
      throw new Error(`asked ${id}, answered ${body}`)
    this.result = said.result
    this.#known = body.length > PARSED ? body.length : -1
  }

  #take(piece: Buffer): void {
    this.#held = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece])
    const start = this.#held.indexOf(HEAD_END)
    if (start < 0) return
    const length = /^content-length: *(\d+)/im.exec(this.#held.toString('latin1', 0, start))?.[1]
    const missing = start + HEAD_END.length + Number(length) - this.#held.length
    if (missing > 0) return
    const reply = this.#held
    this.#held = Buffer.alloc(0)
    if (missing === 0) this.#reply.resolve(reply)
    else this.#reply.reject(new Error(`no Content-Length, or not the right one: ${reply}`))
  }
}

const open = new Map<string, Promise<Line>>()

function lineOf(load: Load, number: number): Promise<Line> {
  const name = `${load.url} ${number}`
  const line = open.get(name) ?? Line.open(load)
  open.set(name, line)
  return line
}

async function run(load: Load): Promise<Loaded> {
  const numbers = Array.from({ length: load.connections }, (_, number) => number)
  const lines = await Promise.all(numbers.map((number) => lineOf(load, number)))
  const request = requestOf(load.asks)
  const { calls: most = Infinity, ms = Infinity } = load
  let calls = 0
  const from = performance.now()
  await Promise.all(
    lines.map(async (line) => {
      while (calls < most && performance.now() - from < ms) {
        calls += 1
        await line.ask(request)
      }
    }),
  )
  return { calls, ms: performance.now() - from, result: lines[0]?.result }
}

process.on('message', (load: Load) => {
  run(load).then(
    (loaded) => process.send?.(loaded),
    (error: unknown) => process.send?.({ problem: String(error) }),
  )
})
