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
  App,
  Door,
  Given,
  HttpClient,
  McpHttpTransport,
  McpServeContext,
  mcpServeHandler,
  MCP_HTTP_MAX_BODY,
  MCP_PROTOCOL_VERSION,
  Redactor,
  RpcError,
  TaiError,
  type JsonObject,
  type McpEntry,
} from '../tai.ts'
import { entryOf } from './fakes/entry.ts'
import { printedBy } from './fakes/elsewhere.ts'
import { outsideOf } from './fakes/outside.ts'
import { peer as fileOf } from './fakes/peers.ts'
import { startProxy } from './fakes/proxy.ts'
import { startStub, type Stub } from './fakes/stub.ts'
import { folder } from './fakes/tai.ts'

type T = { teardown(end: () => unknown): void }
type Options = Partial<McpEntry> & { env?: Record<string, string>; secret?: string }

/** A peer over a transport to an entry of this kind, and what it was told. */
function connect(t: T, { env = {}, secret = '', ...more }: Options) {
  const entry = entryOf({ transport: 'http', ...more })
  const http = new HttpClient(env)
  const redactor = new Redactor()
  redactor.add('KEY', secret)
  const transport = new McpHttpTransport({ http, entry, redactor })
  const heard: string[] = []
  const peer = transport
  transport.hear = (method) => void heard.push(method)
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

async function failure(work: Promise<unknown>): Promise<TaiError & { kind?: string }> {
  try {
    await work
  } catch (error) {
    if (error instanceof TaiError) return error
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
    t.match(await failure(call(name)), { kind: 'too-large', message: /over 10\.0 MB/ }, name)
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
    import { HttpClient, McpHttpTransport, Redactor } from '${new URL('../tai.ts', import.meta.url)}'
    const http = new HttpClient(process.env)
    const entry = { name: 'x', transport: 'http', url: '${url}', headers: {} }
    const transport = new McpHttpTransport({ http, entry, redactor: new Redactor() })
    const peer = transport
    const reply = peer.request('tools/call', { name: 'echo' }, { wait: 5000 })
    console.log(await reply.then((r) => r.content[0].text, (e) => [e.kind, e.message, e.hint].join('|')))
    await transport.close()
    http.close()`
  return printedBy(script, env)
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
  t.match(without, /^unreachable\|.*unknown CA\|.*NODE_EXTRA_CA_CERTS/)
  t.equal(proxied, 'hello')
  t.ok(proxy.seen.every((line) => line === 'CONNECT mcp.test:443'))
  t.match(denied, /^unreachable\|.*user and password/)
  t.notMatch(denied, /hushhus/)
})

t.test('c13 E: nobody listens', async (t) => {
  const { greet } = connect(t, { url: 'http://127.0.0.1:1/mcp' })
  t.match(await failure(greet()), {
    kind: 'unreachable',
    message: /127\.0\.0\.1:1: connection refused/,
  })
})

// --- requests ---

t.test('each message is a POST with the stored headers, the session and the version', async (t) => {
  const more = { 'Mcp-Session-Id': 'sess-1' }
  const { url, seen } = await serve(
    t,
    usual((asked, response) => json(response, said(asked, 'ok')), more),
  )
  const at = url.replace('http://', 'http://me:pass@')
  const { transport, greet, call } = connect(t, { url: at, headers: { 'x-api-key': 'k' } })
  await greet()
  const extra = { 'Mcp-Param-City': 'Oslo' }
  await transport.send({ id: 99, method: 'x' }, undefined, extra)
  await call()
  const [first, second, third, fourth] = seen
  t.notOk(first?.headers['mcp-session-id'] ?? first?.headers['mcp-protocol-version'])
  for (const { verb, path, headers } of seen) {
    t.strictSame([verb, path], ['POST', '/mcp'])
    t.match(headers, {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      authorization: `Basic ${btoa('me:pass')}`,
      'x-api-key': 'k',
    })
  }
  for (const asked of [second, third, fourth])
    t.match(asked?.headers, {
      'mcp-session-id': 'sess-1',
      'mcp-protocol-version': MCP_PROTOCOL_VERSION,
    })
  t.equal(third?.headers['mcp-param-city'], 'Oslo')
  t.equal(fourth?.headers['mcp-param-city'], undefined)
})

t.test('any 2xx to a notification is success, whatever comes with it', async (t) => {
  const bodies: ((response: ServerResponse) => unknown)[] = [
    (response) => response.writeHead(202).end(),
    (response) => response.writeHead(204).end(),
    (response) => response.writeHead(200).end('<html>ok</html>'),
    (response) => json(response, '{"ok":true}'),
    (response) => events(response, ': stays open\n\n'),
  ]
  const { url } = await serve(t, (_asked, response) => bodies.shift()?.(response))
  const { peer } = connect(t, { url })
  while (bodies.length > 0) await peer.notify('notifications/initialized')
})

t.test('a notification that is refused is a failure, JSON-RPC or not', async (t) => {
  const error = { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'no' } }
  const { url } = await serve(t, (_asked, response) => json(response, JSON.stringify(error), 400))
  const { peer } = connect(t, { url })
  const refused = await failure(peer.notify('notifications/initialized'))
  t.match(refused, { kind: 'protocol', message: /answers 400, .*no/ })
})

t.test('a message over 10 MB is not sent', async (t) => {
  const { url, seen } = await serve(t, hello)
  const { call } = connect(t, { url })
  const long = call('echo', { x: 'é'.repeat(MCP_HTTP_MAX_BODY / 2) })
  t.match(await failure(long), { kind: 'protocol', message: /over 10\.0 MB/ })
  t.equal(seen.length, 0)
})

t.test('a server on a Unix socket', { skip: process.platform === 'win32' }, async (t) => {
  const socket = join(folder(), 's')
  const seen: Asked[] = []
  await listen(t, createServer(reading(seen, hello)), socket)
  const { greet, call } = connect(t, { transport: 'uds', socket })
  await greet()
  t.equal(await call(), 'hello')
  t.equal(seen.at(-1)?.path, '/mcp')
  const gone = connect(t, { transport: 'uds', socket: `${socket}.gone` })
  t.match(await failure(gone.greet()), { kind: 'unreachable' })
})

// --- replies ---

t.test('a list of messages in one body is several messages', async (t) => {
  const note = { jsonrpc: '2.0', method: 'notifications/message', params: {} }
  const { url } = await serve(t, (asked, response) =>
    json(response, `[${JSON.stringify(note)},${said(asked, 'ok')}]`),
  )
  const { heard, call } = connect(t, { url })
  t.equal(await call(), 'ok')
  t.strictSame(heard, ['notifications/message'])
})

t.test('comments, empty events and events of other names are passed over', async (t) => {
  const { url } = await serve(t, (asked, response) => {
    const wrong = said(asked, 'wrong')
    const text = `: hi\n\ndata:\n\nevent: ping\ndata: ${wrong}\n\ndata: no JSON\n\nid: 1\n\n`
    events(response, `${text}data: ${said(asked, 'right')}\n\n`)
    response.end()
  })
  const { call } = connect(t, { url })
  t.equal(await call(), 'right')
})

t.test('an answer counts when it comes, though its stream stays open', async (t) => {
  const closed = Promise.withResolvers<void>()
  const { url } = await serve(t, (asked, response) => {
    events(response, `data: ${said(asked, 'ok')}\n\n`)
    response.on('close', closed.resolve)
  })
  const { call } = connect(t, { url })
  t.equal(await call(), 'ok')
  await closed.promise // by us, after a moment
})

t.test('connections are used again, after streams too', async (t) => {
  const ports = new Set<number | undefined>()
  const { url } = await serve(t, (asked, response, request) => {
    ports.add(request.socket.remotePort)
    events(response, `data: ${said(asked, 'ok')}\n\n`)
    setImmediate(() => response.end())
  })
  const { transport, call } = connect(t, { url })
  for (let n = 0; n < 3; n++) {
    await call()
    await transport.send({ id: 'x', method: 'x' }) // over when its stream is
  }
  t.ok(ports.size < 6, `${ports.size} connections for 6 requests`)
})

t.test('a JSON-RPC error counts with any status, and without its id', async (t) => {
  const error = { code: -32022, message: 'no such version', data: { supported: ['2026-07-28'] } }
  for (const [status, id] of [
    [400, null],
    [400, undefined],
    [404, 1],
    [500, null],
    [200, null],
  ] as const) {
    const { url } = await serve(t, (_asked, response) =>
      json(response, JSON.stringify({ jsonrpc: '2.0', id, error }), status),
    )
    const { greet } = connect(t, { url })
    await t.rejects(greet(), new RpcError(-32022, 'no such version', { data: error.data }))
  }
})

t.test('what is no MCP names status, type, host and a short redacted excerpt', async (t) => {
  const page = `<html><b>Bad</b>\n gateway sesame-42 \u001b[31m${'x'.repeat(9_999)}</html>`
  const cases: [number, string | undefined, string, RegExp][] = [
    [
      200,
      'text/html',
      page,
      /answers 200, text\/html: Bad gateway \[redacted:KEY\] \\e\[31m ?x+… \(\d+ more/,
    ],
    [502, 'text/html; charset=utf-8', 'Bad', /answers 502, text\/html; charset=utf-8: Bad$/],
    [500, 'text/html', '<'.repeat(4e6), /answers 500, text\/html: <+… /],
    [404, 'text/plain', 'none', /answers 404, text\/plain: none$/],
    [429, 'application/json', '{"error":{"code":1}}', /answers 429, .*: \{"error":\{"code":1\}\}$/],
    [200, 'application/json', '{"jsonrpc":"2.0","id":', /answers 200, application\/json: \{/],
    [200, 'application/json', '', /answers 200, application\/json: no reason given$/],
    [202, undefined, '', /answers 202, no type: no reason given$/],
    [200, undefined, '{}', /answers 200, no type: \{\}$/],
  ]
  for (const [status, type, body, message] of cases) {
    const { url } = await serve(t, (_asked, response) =>
      response.writeHead(status, type === undefined ? {} : { 'Content-Type': type }).end(body),
    )
    const { ask } = connect(t, { url: `${url}?key=hush`, secret: 'sesame-42' })
    const error = await failure(ask('tools/list'))
    t.match(error, { kind: 'protocol', message })
    t.match(error.message, /^127\.0\.0\.1:\d+ /)
    t.notMatch(error.message, /sesame|hush/)
    t.ok(error.message.length < 500)
  }
})

t.test('a server that wants a sign-in says how', async (t) => {
  const wants = 'Bearer resource_metadata="https://mcp.test/.well-known/x", scope="files"'
  for (const status of [401, 403]) {
    const { url } = await serve(t, (_asked, response) =>
      json(response, '{"error":"no token"}', status, { 'WWW-Authenticate': wants }),
    )
    const { greet } = connect(t, { url })
    const error = await failure(greet())
    t.match(error, { kind: 'auth', hint: /sign-in/ })
    t.match(error.message, RegExp(`answers ${status}, .*scope="files" \\{"error":"no token"\\}`))
  }
})

t.test('a reply that is cut, too large or too slow is what it is', async (t) => {
  const { url } = await serve(t, (asked, response) => {
    if (asked.path === '/cut') json(response, '', 200, { 'Content-Length': 9 }).destroy()
    if (asked.path === '/half') {
      response.writeHead(200, { 'Content-Type': 'application/json' }).write('{"jsonrpc"')
      setImmediate(() => response.destroy())
    }
    if (asked.path === '/event') events(response, `data: ${'x'.repeat(MCP_HTTP_MAX_BODY)}`)
    if (asked.path === '/zip')
      response
        .writeHead(200, { 'Content-Type': 'text/event-stream', 'Content-Encoding': 'gzip' })
        .end(gzipSync(`data: ${said(asked, 'x'.repeat(MCP_HTTP_MAX_BODY))}\n\n`))
  })
  const at = (path: string) => connect(t, { url: url.replace('/mcp', path) })
  t.match(await failure(at('/half').call()), { kind: 'cut', message: /broke off/ })
  t.match(await failure(at('/cut').call()), { kind: /cut|unreachable/ })
  t.match(await failure(at('/event').call()), { message: /10\.0 MB/ })
  t.match(await failure(at('/zip').call()), { kind: 'too-large', message: /10\.0 MB/ })
  const slow = at('/slow').peer.request('x', {}, { wait: 30 })
  t.match(await failure(slow), { kind: 'timeout' })
})

// --- ends ---

t.test('an abort ends the exchange at once', async (t) => {
  for (const path of ['/headers', '/body', '/stream']) {
    const [asked, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { url, seen } = await serve(t, (request, response) => {
      if (request.message['method'] === 'notifications/cancelled')
        return response.writeHead(202).end()
      if (path === '/body')
        response.writeHead(200, { 'Content-Type': 'application/json' }).write('{')
      if (path === '/stream') events(response, 'id: 1\nretry: 10\ndata:\n\n')
      response.on('close', ended.resolve)
      return asked.resolve()
    })
    const { call } = connect(t, { url: url.replace('/mcp', path) })
    const stop = new AbortController()
    const calling = call('echo', {}, stop.signal)
    await asked.promise
    stop.abort(new TaiError('enough'))
    await t.rejects(calling, { message: 'enough' })
    await ended.promise
    t.ok(
      seen.every(({ verb }) => verb === 'POST'),
      'and nothing is resumed',
    )
  }
})

t.test('what is aborted before it begins is not sent', async (t) => {
  const { url, seen } = await serve(t, hello)
  const { transport } = connect(t, { url })
  const reason = new TaiError('enough')
  const end = () => ({ signal: AbortSignal.abort(reason) })
  await t.rejects(transport.send({ id: 1, method: 'x' }, end), reason)
  t.notOk(await transport.send({ method: 'x' }), 'and the next one is')
  t.equal(seen.length, 1)
})

t.test('close ends what is under way, and what is waited for', async (t) => {
  const [asked, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { url, seen } = await serve(t, (_asked, response) => {
    response.on('close', ended.resolve)
    asked.resolve()
  })
  const { transport, call } = connect(t, { url })
  const calling = failure(call())
  await asked.promise
  await transport.close()
  t.match(await calling, { kind: 'lost', message: /closed/ })
  await ended.promise
  t.match(await failure(call()), { kind: 'lost' })
  t.notOk(seen.some(({ verb }) => verb === 'DELETE'))
})

t.test('an entry whose URL is none does not begin', async (t) => {
  for (const url of ['nowhere', 'ftp://example.org/'])
    t.match(await failure((async () => connect(t, { url }).greet())()), { kind: /start|refused/ })
})

// --- resuming ---

t.test(
  'a reply that is cut after an event id is resumed with GET, once its server wishes',
  async (t) => {
    for (const how of ['end', 'destroy'] as const) {
      let cut = 0
      let waited = 0
      let asked: Asked | undefined
      const { url, seen } = await serve(
        t,
        usual(
          (request, response) => {
            if (request.verb === 'POST') {
              asked = request
              events(response, 'id: a\nretry: 150\ndata:\n\n')
              setImmediate(() => {
                cut = performance.now()
                response[how]()
              })
              return
            }
            waited ||= performance.now() - cut
            if (seen.filter(({ verb }) => verb === 'GET').length === 1) {
              events(
                response,
                'id: b\ndata: {"jsonrpc":"2.0","method":"notifications/x"}\n\nid: c\nda',
              )
              return void setImmediate(() => response[how]())
            }
            events(response, `data: ${said(asked!, 'resumed')}\n\n`)
            response.end()
          },
          { 'Mcp-Session-Id': 'sess-1' },
        ),
      )
      const { heard, greet, call } = connect(t, { url, headers: { 'x-api-key': 'k' } })
      await greet()
      t.equal(await call(), 'resumed', how)
      t.strictSame(heard, ['notifications/x'])
      t.ok(waited > 140 && waited < 350, `${waited} ms after 150 were asked for`)
      const gets = seen.filter(({ verb }) => verb === 'GET')
      t.strictSame(
        gets.map(({ headers }) => headers['last-event-id']),
        ['a', 'b'],
      )
      t.match(gets[0]?.headers, {
        accept: 'text/event-stream',
        'mcp-session-id': 'sess-1',
        'mcp-protocol-version': MCP_PROTOCOL_VERSION,
        'x-api-key': 'k',
      })
    }
  },
)

t.test('what cannot be resumed is a lost reply', async (t) => {
  const cases: [string, string, string, RegExp][] = [
    ['no id', '2025-11-25', ': hi\n\n', /ended without an answer/],
    ['the stateless era', '2026-07-28', 'id: 1\ndata:\n\n', /ended without an answer/],
    ['no GET', '2025-11-25', 'id: 1\nretry: 1\ndata:\n\n', /answers 405/],
  ]
  for (const [name, version, text, message] of cases) {
    const { url, seen } = await serve(t, (asked, response) => {
      if (asked.verb === 'GET') return response.writeHead(405).end()
      events(response, text)
      return response.end()
    })
    const { transport, call } = connect(t, { url })
    transport.version = version
    t.match(await failure(call()), { message }, name)
    t.equal(seen.length, name === 'no GET' ? 2 : 1, name)
  }
})

t.test('a reply that is cut again and again ends with its call', async (t) => {
  const { url, seen } = await serve(t, (_asked, response) => {
    events(response, 'id: 1\nretry: 0\ndata:\n\n')
    response.end()
  })
  const { peer } = connect(t, { url })
  t.match(await failure(peer.request('x', {}, { wait: 350 })), { kind: 'timeout' })
  t.ok(seen.length < 8, 'with pauses, though the server wants none')
})

// --- the older transport ---

/** One stream, and what is posted to it answered on it. */
async function serveSse(t: T, endpoint: (port: string) => string) {
  let stream: ServerResponse | undefined
  const server = await serve(t, (asked, response) => {
    if (asked.verb === 'GET') {
      stream = response
      events(response, `: hi\n\nevent: endpoint\ndata: ${endpoint(new URL(server.url).port)}\n\n`)
      return
    }
    response.writeHead(202).end('Accepted')
    const { id, method } = asked.message
    const reply = method === 'initialize' ? greeting(asked) : said(asked, `${asked.path}`)
    if (id !== undefined) stream?.write(`event: message\r\ndata: ${reply}\r\n\r\n`)
  })
  return { ...server, cut: () => stream?.destroy() }
}

t.test('type sse: one stream, POSTs to the address it names, replies on it', async (t) => {
  const { url, seen, cut } = await serveSse(t, () => '/post?session=1')
  const headers = { Authorization: 'Bearer a1' }
  const { greet, call } = connect(t, { transport: 'sse', url, headers })
  await greet()
  t.equal(await call(), '/post?session=1')
  t.strictSame(
    seen.map(({ verb }) => verb),
    ['GET', 'POST', 'POST', 'POST'],
  )
  t.equal(seen[0]?.headers.accept, 'text/event-stream')
  t.ok(seen.every(({ headers: sent }) => sent.authorization === 'Bearer a1'))
  cut()
  const calling = failure(call())
  t.match(await calling, { kind: 'lost' })
  t.match(await failure(call()), { kind: 'lost' }, 'whoever wants more connects anew')
})

t.test('type sse: an address elsewhere is sent nothing', async (t) => {
  const other = await serve(t, hello)
  const { url } = await serveSse(t, () => other.url)
  const headers = { Authorization: 'Bearer a1' }
  const { greet } = connect(t, { transport: 'sse', url, headers })
  t.match(await failure(greet()), {
    kind: 'protocol',
    message: RegExp(`to ${other.url}$`),
  })
  t.strictSame(other.seen, [])
})

t.test('type sse: what is no stream, and POSTs that are refused, are said so', async (t) => {
  const { url } = await serve(t, hello)
  const { greet } = connect(t, { transport: 'sse', url })
  t.match(await failure(greet()), { kind: 'protocol', message: /answers 200, application\/json/ })
  const lost = await serve(t, (asked, response) =>
    asked.verb === 'GET'
      ? events(response, 'event: endpoint\ndata: /post\n\n')
      : json(response, 'no', 401),
  )
  const { greet: again } = connect(t, { transport: 'sse', url: lost.url })
  t.match(await failure(again()), { kind: 'auth', message: /answers 401/ })
})

t.test('only an entry that says sse is asked with GET', async (t) => {
  const { url, seen } = await serveSse(t, () => '/post')
  t.match(await failure(connect(t, { url }).greet()), { kind: 'protocol', message: /answers 202/ })
  t.notOk(seen.some(({ verb }) => verb === 'GET'))
})

// --- servers of others, and our own ---

t.test('the official SDK, in each of its ways', async (t) => {
  const script = await fileOf('../echo-server.mjs')
  for (const [kind, transport, notes] of [
    ['events', 'http', 1],
    ['json', 'http', 0],
    ['resume', 'http', 1],
    ['sse', 'sse', 1],
  ] as const) {
    const child = spawn(process.execPath, [script, kind], { stdio: ['ignore', 'pipe', 'inherit'] })
    const gone = once(child, 'close')
    t.teardown(() => child.kill())
    const [port] = await once(child.stdout, 'data')
    const url = `http://127.0.0.1:${Number(port)}/mcp`
    const { transport: link, heard, ask, greet, call } = connect(t, { transport, url })
    await greet()
    t.match(await ask('tools/list'), { tools: [{ name: 'echo' }] }, kind)
    for (const text of ['héllo', 'x'.repeat(100_000)]) t.ok((await call('echo', { text })) === text)
    t.equal(heard.length, 2 * notes, kind)
    t.match(await call('none'), /none/, 'a tool that is not there')
    await link.close()
    child.kill()
    await gone
  }
})

t.test('tai itself', async (t) => {
  const key = 'key-of-a-test-server'
  const app = new App({ ...outsideOf(), given: new Given() })
  const context = await McpServeContext.open(app, { key, usual: 'danger-full-access' })
  const server = createServer(mcpServeHandler(new Door({ context, hosts: new Set(['127.0.0.1']) })))
  const { port } = await listen(t, server)
  const url = `http://127.0.0.1:${port}/mcp`
  const { ask, greet, call } = connect(t, {
    url,
    headers: { Authorization: `Bearer ${key}` },
  })
  await greet()
  t.equal(((await ask('tools/list'))['tools'] as unknown[]).length, context.toolCount)
  t.match(await call('time_now'), /20\d\d/)
  await t.rejects(ask('tools/call', { name: 'none' }), { code: -32601 })
  const wrong = connect(t, { url, headers: { Authorization: 'Bearer wrong' } })
  t.match(await failure(wrong.greet()), { kind: 'auth', message: /answers 401/ })
  await context.close()
  await app.close()
})
