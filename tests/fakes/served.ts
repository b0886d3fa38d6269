// Servers as their clients meet them: the built binary (`serve`), or one in this process, where a
// test sets the clock (`serveHere`). Both take a free port and end with their test.
//
//   const server = await serve(t)
//   const peer = await begin(server)              a session
//   await peer.call('time_now', {})               {status, body: {result}}
//   const line = await connect(server); line.write('GET ...'); await line.says(/405/)

import { once } from 'node:events'
import * as http from 'node:http'
import * as net from 'node:net'
import { App, main, parseLine, type JsonObject } from '../../tai.ts'
import { keptOutput, outsideOf } from './outside.ts'
import { ended, folder, start } from './tai.ts'

type Test = { teardown(work: () => unknown): void }
type Wishes = {
  key?: string // of the flag; '' where the variable gives it
  as?: string // the key that clients use, if another
  args?: readonly string[]
  env?: Record<string, string>
  home?: string
  cwd?: string
  through?: readonly [program: string, ...args: string[]]
}
type Headers = Readonly<Record<string, string | undefined>>
type Server = Readonly<{ port: number; key: string }>

export const KEY = 'k3y-Value-0123456789'
export const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
}

const portOf = (url: string): number => Number(/:(\d+)\/mcp/.exec(url)?.[1])

/** The built binary, listening. */
export async function serve(t: Test, { key = KEY, as = key, args = [], ...options }: Wishes = {}) {
  const home = options.home ?? folder()
  const cwd = options.cwd ?? folder()
  const child = await start(['--serve-mcp', key, '--mcp-port', '0', ...args], {
    ...options,
    home,
    cwd,
  })
  const said = { out: '', err: '' }
  const up = Promise.withResolvers<string>()
  child.stdout.on('data', (piece: Buffer) => {
    said.out += String(piece)
    if (said.out.endsWith('\n')) up.resolve(said.out)
  })
  child.stderr.on('data', (piece: Buffer) => (said.err += String(piece)))
  child.stdin.on('error', () => {})
  const done = ended(child, 110_000)
  t.teardown(async () => {
    child.kill('SIGTERM')
    await done
  })
  const early = done.then(({ err }) => Promise.reject(new Error(`no server: ${err}`)))
  early.catch(() => {}) // its usual end
  const url = (await Promise.race([up.promise, early])).trim()
  /** Waits until stderr fits. */
  const tells = async (pattern: RegExp) => {
    while (!pattern.test(said.err)) await once(child.stderr, 'data')
  }
  return { url, port: portOf(url), key: as, home, cwd, child, said, tells, done }
}

/** The server in this process, in a world whose clock is `clock.now`. */
export async function serveHere(t: Test, { key = KEY, args = [], ...options }: Wishes = {}) {
  const clock = { now: Date.now() }
  const stop = new AbortController()
  const outside = outsideOf(options)
  const up = Promise.withResolvers<string>()
  const out = { ...keptOutput(), write: (text: string) => (up.resolve(text), true) }
  const world = { ...outside.world, now: () => clock.now }
  const argv = ['--serve-mcp', key, '--mcp-port', '0', '--root', options.cwd ?? folder(), ...args]
  const done = main(argv, { ...outside, world, out: out as never, signal: stop.signal })
  t.teardown(async () => {
    stop.abort(new Error('the test is over'))
    await done
  })
  const url = await Promise.race([up.promise, done.then(() => outside.err.text)])
  return { port: portOf(url), key, clock, stop, done, err: outside.err, home: world.home }
}

/** What one run has, for tests of the server's parts: an App in a home of its own, with a set clock. */
export function openApp(t: Test, { args = [], ...options }: Wishes = {}) {
  const clock = { now: Date.now() }
  const stop = new AbortController()
  const outside = outsideOf(options)
  const { given } = parseLine(['--root', options.cwd ?? folder(), ...args], [])
  const world = { ...outside.world, now: () => clock.now }
  const app = new App({ ...outside, given, world, signal: stop.signal })
  t.teardown(() => app.close())
  return { app, clock, stop, out: outside.out, err: outside.err }
}

export type Reply = {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies freely
  body: any
}

type Request = {
  method?: string
  path?: string
  headers?: Headers // undefined leaves one out
  body?: string | Buffer | object
  agent?: http.Agent
  signal?: AbortSignal | undefined
}

/** One request, with the key and what a good client says unless told otherwise. */
export async function send({ port, key }: Server, request: Request = {}): Promise<Reply> {
  const { method = 'POST', path = '/mcp', body = '', signal } = request
  // Kept alive: a server that is told to close does so in the middle of a body that it refuses.
  const agent = request.agent ?? new http.Agent({ keepAlive: true })
  const usual: Headers = {
    authorization: `Bearer ${key}`,
    accept: 'application/json, text/event-stream',
    ...(method === 'POST' && { 'content-type': 'application/json' }),
  }
  const all = Object.entries({ ...usual, ...request.headers }).filter(
    ([, value]) => value !== undefined,
  )
  const headers = Object.fromEntries(all) as Record<string, string>
  const asked = http.request({
    port,
    host: '127.0.0.1',
    method,
    path,
    headers,
    agent,
    ...(signal && { signal }),
  })
  asked.end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body))
  const [response] = (await once(asked, 'response')) as [http.IncomingMessage]
  asked.on('error', () => {}) // after the response: told by the body
  const pieces: Buffer[] = []
  for await (const piece of response) pieces.push(piece)
  const text = Buffer.concat(pieces).toString()
  if (request.agent === undefined) agent.destroy()
  const isJson = response.headers['content-type'] === 'application/json'
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: isJson && text !== '' ? JSON.parse(text) : undefined,
  }
}

/** One request of a client's session. */
export class Peer {
  readonly server: Server
  readonly session: string
  readonly agent = new http.Agent({ keepAlive: true })
  #ids = 0

  constructor(server: Server, session: string) {
    this.server = server
    this.session = session
  }

  post(body: string | object, { headers = {}, signal }: Pick<Request, 'headers' | 'signal'> = {}) {
    const own = { 'mcp-session-id': this.session, ...headers }
    return send(this.server, { body, headers: own, signal, agent: this.agent })
  }

  ask(method: string, params: object = {}, signal?: AbortSignal): Promise<Reply> {
    const message = { jsonrpc: '2.0', id: `${method} ${++this.#ids}`, method, params }
    return this.post(message, { signal })
  }

  call(name: string, args: JsonObject = {}, signal?: AbortSignal): Promise<Reply> {
    return this.ask('tools/call', { name, arguments: args }, signal)
  }

  tell(method: string, params: object = {}): Promise<Reply> {
    return this.post({ jsonrpc: '2.0', method, params })
  }

  end(): Promise<Reply> {
    return send(this.server, { method: 'DELETE', headers: { 'mcp-session-id': this.session } })
  }
}

/** A client that has said hello. */
export async function begin(server: Server, session?: string): Promise<Peer> {
  if (session !== undefined) return new Peer(server, session)
  const body = { jsonrpc: '2.0', id: 0, method: 'initialize', params: INITIALIZE }
  const { headers, text } = await send(server, { body })
  const id = headers['mcp-session-id']?.toString()
  if (id === undefined) throw new Error(`no session: ${text}`)
  return new Peer(server, id)
}

/** The text of a tool's result, or the error that came instead. */
export const textOf = ({ body }: Reply): string =>
  body.result?.content?.[0]?.text ?? JSON.stringify(body.error)

/** A connection of bytes. */
export async function connect({ port }: Pick<Server, 'port'>) {
  const socket = net.connect(port, '127.0.0.1')
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()))
  const line = {
    socket,
    text: '',
    closed,
    write: (text: string | Buffer) => void socket.write(text),
    /** Waits until what came fits. */
    says: async (pattern: RegExp): Promise<string> => {
      while (!pattern.test(line.text)) {
        const more = await Promise.race([once(socket, 'data'), closed])
        if (more === undefined && !pattern.test(line.text))
          throw new Error(`closed after ${JSON.stringify(line.text)}, not ${pattern}`)
      }
      return line.text
    },
  }
  socket.on('error', () => {})
  socket.on('data', (piece: Buffer) => (line.text += piece.toString('latin1')))
  await once(socket, 'connect')
  return line
}

/** A request as bytes; `port` stands for P in it. */
export const rawPost = (port: number, body: string, headers = ''): string =>
  `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${KEY}\r\n` +
  `Content-Type: application/json\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
