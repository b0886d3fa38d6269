import t from 'tap'
import { once } from 'node:events'
import {
  createServer,
  Server,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Server as NetServer } from 'node:net'
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import {
  HttpClient,
  LinkError,
  McpHttpTransport,
  MCP_HTTP_MAX_BODY,
  MCP_PROTOCOL_VERSION,
  Redactor,
  RpcError,
  RpcPeer,
  TaiError,
  type JsonObject,
  type McpEntry,
} from '../tai.ts'
import { startProxy } from './fakes/proxy.ts'
import { startStub, type Stub } from './fakes/stub.ts'
import { folder } from './fakes/tai.ts'

type T = { teardown(end: () => unknown): void }
type Options = Partial<McpEntry> & { env?: Record<string, string>; secret?: string }

/** A peer over a transport to an entry of this kind, and what it was told. */
function connect(t: T, { env = {}, secret = '', ...more }: Options) {
  const entry: McpEntry = {
    name: 'stub',
    transport: 'http',
    command: undefined,
    args: [],
    env: {},
    cwd: undefined,
    url: undefined,
    socket: undefined,
    headers: {},
    allow: [],
    deny: [],
    enabled: undefined,
    options: {},
    ...more,
  }
  const http = new HttpClient(env)
  const redactor = new Redactor()
  redactor.add('KEY', secret)
  const transport = new McpHttpTransport({ http, entry, redactor })
  const heard: string[] = []
  const peer = new RpcPeer(transport, (method) => heard.push(method))
  t.teardown(async () => {
    await transport.close()
    http.close()
  })
  const ask = (method: string, params: JsonObject = {}, signal?: AbortSignal) =>
    peer.request(method, params, { wait: 10_000, signal })
  /** As the client does it. */
  const greet = async () => {
    transport.version = undefined
    const clientInfo = { name: 'tai', version: '0' }
    const hello = { protocolVersion: MCP_PROTOCOL_VERSION, capabilities: {}, clientInfo }
    const { protocolVersion } = await ask('initialize', hello)
    transport.version = String(protocolVersion)
    await peer.notify('notifications/initialized')
  }
  /** The text of a call's result. */
  const call = async (name = 'echo', args: JsonObject = {}, signal?: AbortSignal) => {
    const result = await ask('tools/call', { name, arguments: args }, signal)
    return String((result['content'] as JsonObject[])[0]?.['text'])
  }
  return { transport, peer, heard, ask, greet, call }
}

async function failure(work: Promise<unknown>): Promise<LinkError> {
  try {
    await work
  } catch (error) {
    if (error instanceof LinkError) return error
    throw error
  }
  throw new Error('no failure')
}

async function listen(t: T, server: NetServer, ...where: unknown[]): Promise<AddressInfo> {
  server.listen(...((where.length ? where : [0, '127.0.0.1']) as [number, string]))
  await once(server, 'listening')
  t.teardown(() => {
    if (server instanceof Server) server.closeAllConnections()
    server.close()
  })
  return server.address() as AddressInfo
}

type Asked = { verb: string; path: string; headers: IncomingHttpHeaders; message: JsonObject }
type Answer = (asked: Asked, response: ServerResponse, request: IncomingMessage) => unknown

/** What a request says, when it has come whole. */
function reading(seen: Asked[], answer: Answer) {
  return (request: IncomingMessage, response: ServerResponse) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const { method: verb = '', url: path = '', headers } = request
      const asked = { verb, path, headers, message: JSON.parse(`${Buffer.concat(pieces)}` || '{}') }
      seen.push(asked)
      answer(asked, response, request)
    })
  }
}

async function serve(t: T, answer: Answer): Promise<{ url: string; seen: Asked[] }> {
  const seen: Asked[] = []
  const { port } = await listen(t, createServer(reading(seen, answer)))
  return { url: `http://127.0.0.1:${port}/mcp`, seen }
}

const resultOf = ({ message }: Asked, result: JsonObject = {}) =>
  JSON.stringify({ jsonrpc: '2.0', id: message['id'], result })
const said = (asked: Asked, text: string) => resultOf(asked, { content: [{ type: 'text', text }] })
const greeting = (asked: Asked) =>
  resultOf(asked, { protocolVersion: MCP_PROTOCOL_VERSION, capabilities: { tools: {} } })

const json = (response: ServerResponse, body: string, status = 200, more = {}) =>
  response.writeHead(status, { 'Content-Type': 'application/json', ...more }).end(body)
const events = (response: ServerResponse, text: string) =>
  response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(text)

/** Answers initialize and notifications; the rest is for the test. */
const usual =
  (answer: Answer, more = {}): Answer =>
  (asked, response, request) => {
    if (asked.message['method'] === 'initialize') json(response, greeting(asked), 200, more)
    else if (asked.verb === 'POST' && asked.message['id'] === undefined)
      response.writeHead(202).end()
    else answer(asked, response, request)
  }

async function stub(t: T, id: string, count?: number): Promise<Stub> {
  const server = await startStub(id, count)
  t.teardown(server.close)
  return server
}

// --- family c of the cases ---

t.test('c01: lines that end in CRLF or CR, cut anywhere', async (t) => {
  const { url } = await stub(t, 'c01')
  const { ask, greet, call } = connect(t, { url })
  await greet()
  t.match(await ask('tools/list'), { tools: [{ name: 'echo' }] })
  t.equal(await call(), 'ok')
})

t.test('c03: one message over several data lines, cut within its characters', async (t) => {
  const { url } = await stub(t, 'c03')
  const { ask, greet, call } = connect(t, { url })
  await greet()
  t.match(await ask('tools/list'), { tools: [{ name: 'echo' }] })
  t.equal(await call(), '你好🌍')
})

t.test('c05: what else a reply stream carries, a ping that wants an answer too', async (t) => {
  const { url, seen } = await stub(t, 'c05')
  const { heard, greet, call } = connect(t, { url })
  await greet()
  t.equal(await call(), 'ok ping={}')
  t.strictSame(heard, ['notifications/progress', 'notifications/message'])
  t.match(seen.at(-1), { verb: 'POST', session: 'sess-A', version: '2025-11-25' })
})

// Who greets anew, once, is the client; the transport says when, and forgets the dead session.
t.test(
  'c07, complaint 35: a session that is over is said so, and initialize has none',
  async (t) => {
    const server = await stub(t, 'c07')
    const { transport, greet, call } = connect(t, server)
    await greet()
    t.equal(await call('echo', { x: 'expire' }), 'calls=1 sess-1')
    const over = await failure(call())
    t.match(over, { kind: 'session', message: /session not found: 127\.0\.0\.1:\d+ answers 404/ })
    await greet()
    t.equal(await call(), 'calls=2 sess-2')
    t.equal(await call(), 'calls=3 sess-2')
    t.equal(await call('echo', { x: 'break' }), 'calls=4 sess-2')
    t.equal((await failure(call())).kind, 'session')
    t.equal((await failure(greet())).kind, 'session', 'its notification meets a dead session again')
    await transport.close()
    await server.close()
    t.strictSame(
      server.said,
      Array.from({ length: 3 }, () => 'INIT with session header: undefined'),
    )
    t.ok(
      server.seen.every(
        ({ verb, rpc, version }) =>
          verb === 'POST' && (rpc === 'initialize') === (version === undefined),
      ),
    )
  },
)

t.test('c09: redirects keep the POST, and credentials at home', async (t) => {
  const server = await stub(t, 'c09', 2)
  const headers = { Authorization: 'Bearer a1', 'X-Api-Key': 'k2' }
  const at = (path: string) => connect(t, { url: server.url.replace('/mcp', path), headers })
  for (const path of ['/same', '/perm']) {
    const { greet, call } = at(path)
    await greet()
    t.equal(await call(), 'auth=Bearer a1 key=k2', path)
  }
  const other = server.ports.find((port) => !server.url.includes(`:${port}/`))
  const to = (port: unknown, path: string) => RegExp(` to http://127\\.0\\.0\\.1:${port}${path}$`)
  const home = new URL(server.url).port
  for (const [path, target] of [
    ['/get301', to(home, '/mcp/')],
    ['/get302', to(home, '/mcp/')],
    ['/cross', to(other, '/mcp')],
    ['/loop', to(home, '/loop')],
  ] as const)
    t.match(await failure(at(path).greet()), { kind: 'protocol', message: target, hint: /url/ })
  await server.close()
  t.strictSame(server.said, [], 'nothing leaked')
  t.ok(server.seen.every(({ verb }) => verb === 'POST'))
  t.equal(server.seen.filter(({ url }) => url === '/loop').length, 6)
})

t.test('c11: compressed replies, and bodies over 10 MB', async (t) => {
  const { url } = await stub(t, 'c11')
  const { greet, call } = connect(t, { url })
  await greet()
  t.equal(await call('gz'), 'ok gz')
  t.equal(await call('br'), 'ok br')
  t.equal(await call('mid'), 'm'.repeat(9e6)) // that it spills into a record is the bridge's
  const before = process.memoryUsage().rss
  for (const name of ['bomb', 'big_len', 'big_chunked'])
    t.match(await failure(call(name)), { kind: 'protocol', message: /over 10\.0 MB/ }, name)
  t.ok(process.memoryUsage().rss - before < 200e6)
  t.equal(await call('gz'), 'ok gz', 'and it goes on')
})

const hello: Answer = usual((asked, response) => json(response, said(asked, 'hello')))

t.test('c13 A: loopback is never proxied', async (t) => {
  const { url } = await serve(t, hello)
  const { greet, call } = connect(t, { url, env: { HTTP_PROXY: 'http://127.0.0.1:1' } })
  await greet()
  t.equal(await call(), 'hello')
})

t.test('c13 B: localhost is found on either address', async (t) => {
  for (const [host, name] of [
    ['127.0.0.1', 'localhost'],
    ['::1', 'localhost'],
    ['::1', '[::1]'],
  ] as const) {
    const { port } = await listen(t, createServer(reading([], hello)), 0, host)
    const { greet, call } = connect(t, { url: `http://${name}:${port}/mcp` })
    await greet()
    t.equal(await call(), 'hello', `${name} on ${host}`)
  }
})

/** A key and certificate for 127.0.0.1 and mcp.test, and the file of the CA that signed it. */
function makeCertificates() {
  const cwd = folder()
  const openssl = (line: string, input = '') =>
    execFileSync('openssl', line.split(' '), { cwd, input, stdio: 'pipe' })
  const ec = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
  openssl(`req -x509 ${ec} -keyout ca.key -out ca.pem -subj /CN=test-ca -days 2`)
  openssl(`req -new ${ec} -keyout key.pem -out csr.pem -subj /CN=mcp.test`)
  const names = 'subjectAltName=IP:127.0.0.1,DNS:mcp.test'
  openssl('x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -out cert.pem -days 2 -extfile -', names)
  const read = (name: string) => readFileSync(join(cwd, name), 'utf8')
  return { ca: join(cwd, 'ca.pem'), key: read('key.pem'), cert: read('cert.pem') }
}

/** What a process with these variables gets from a URL, or why not: the CAs are read at its start. */
async function callElsewhere(url: string, env: Record<string, string>): Promise<string> {
  const script = `
    import { HttpClient, McpHttpTransport, Redactor, RpcPeer } from '${new URL('../tai.ts', import.meta.url)}'
    const http = new HttpClient(process.env)
    const entry = { name: 'x', transport: 'http', url: '${url}', headers: {} }
    const transport = new McpHttpTransport({ http, entry, redactor: new Redactor() })
    const peer = new RpcPeer(transport, () => {})
    const reply = peer.request('tools/call', { name: 'echo' }, { wait: 5000 })
    console.log(await reply.then((r) => r.content[0].text, (e) => [e.kind, e.message, e.hint].join('|')))
    await transport.close()
    http.close()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const piece of child.stdout) text += String(piece)
  return text.trim()
}

t.test('c13 C and D: a private CA by its variable only, and a proxy with a password', async (t) => {
  const { ca, key, cert } = makeCertificates()
  const secure = createSecureServer({ key, cert }, reading([], hello))
  const { port } = await listen(t, secure)
  const url = `https://127.0.0.1:${port}/mcp`
  await using proxy = await startProxy(port, 'user:hushhush')
  const through = (password: string) => ({
    NODE_EXTRA_CA_CERTS: ca,
    HTTPS_PROXY: `http://user:${password}@127.0.0.1:${proxy.port}`,
  })
  const far = 'https://mcp.test/mcp'
  const [with_, without, proxied, denied] = await Promise.all([
    callElsewhere(url, { NODE_EXTRA_CA_CERTS: ca }),
    callElsewhere(url, {}),
    callElsewhere(far, through('hushhush')),
    callElsewhere(far, through('hushhusk')),
  ])
  t.equal(with_, 'hello')
  t.match(without, /^start\|.*unknown CA\|.*NODE_EXTRA_CA_CERTS/)
  t.equal(proxied, 'hello')
  t.ok(proxy.seen.every((line) => line === 'CONNECT mcp.test:443'))
  t.match(denied, /^start\|.*user and password/)
  t.notMatch(denied, /hushhus/)
})

t.test('c13 E: nobody listens', async (t) => {
  const { greet } = connect(t, { url: 'http://127.0.0.1:1/mcp' })
  t.match(await failure(greet()), { kind: 'start', message: /127\.0\.0\.1:1: connection refused/ })
})
