import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, Server, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import {
  createServer as createRawServer,
  type AddressInfo,
  type Server as NetServer,
  type Socket,
} from 'node:net'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import * as zlib from 'node:zlib'
import t from 'tap'
import {
  HttpClient,
  HttpError,
  SseReader,
  TaiError,
  isPublicAddress,
  proxyFor,
  type HttpReply,
  type HttpRequest,
} from '../tai.ts'
import { printedBy } from './fakes/elsewhere.ts'
import { startProxy } from './fakes/proxy.ts'

type T = { teardown(end: () => unknown): void }

async function listen(t: T, server: NetServer): Promise<number> {
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => {
    if (server instanceof Server) server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const serve = async (t: T, handler: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await listen(t, createServer(handler))}`

/** A server that sends these bytes to whoever connects, then ends, resets or keeps silent. */
async function serveRaw(
  t: T,
  bytes: string,
  then: 'end' | 'reset' | 'silence' = 'end',
): Promise<string> {
  const open = new Set<Socket>()
  const server = createRawServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.once('data', () =>
      socket.write(bytes, () => {
        if (then === 'end') socket.end()
        if (then === 'reset') socket.resetAndDestroy()
      }),
    )
  })
  t.teardown(() => open.forEach((socket) => socket.destroy()))
  return `http://127.0.0.1:${await listen(t, server)}`
}

function client(t: T, env: Record<string, string> = {}): HttpClient {
  const http = new HttpClient(env)
  t.teardown(() => http.close())
  return http
}

const get = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'GET',
  url,
  timeout: 5_000,
  ...more,
})

/** The error of an exchange, its headers or its body. */
async function failure(work: Promise<HttpReply>): Promise<HttpError> {
  try {
    await (await work).bytes()
  } catch (error) {
    if (error instanceof HttpError) return error
    throw error
  }
  throw new Error('no failure')
}

t.test('a request arrives as it was given, and its reply comes back', async (t) => {
  const url = await serve(t, (req, res) => {
    const pieces: Buffer[] = []
    req.on('data', (piece: Buffer) => pieces.push(piece))
    req.on('end', () => {
      res.setHeader('x-twice', ['a', 'b'])
      res.end(JSON.stringify([req.method, req.url, req.headers, Buffer.concat(pieces).toString()]))
    })
  })
  const host = url.slice('http://'.length)
  const reply = await client(t).send({
    method: 'POST',
    url: `http://me:pa%3Ass@${host}/a?b=c`,
    headers: { 'X-One': '1' },
    body: 'héllo',
    timeout: 5_000,
  })
  t.equal(reply.status, 200)
  t.equal(reply.headers['x-twice'], 'a, b')
  t.equal(reply.url, `${url}/a?b=c`, 'without user and password')
  const [method, target, headers, body] = JSON.parse(await reply.text())
  t.same([method, target, body], ['POST', '/a?b=c', 'héllo'])
  t.match(headers, {
    'x-one': '1',
    'content-length': '6',
    authorization: `Basic ${btoa('me:pa:ss')}`,
    'user-agent': /^tai\//,
  })
})

t.test('compressed bodies are read, whatever their coding', async (t) => {
  const text = 'naïve 日本語 '.repeat(500)
  const codings: [string, Buffer][] = [
    ['gzip', zlib.gzipSync(text)],
    ['br', zlib.brotliCompressSync(text)],
    ['identity', Buffer.from(text)],
  ]
  const url = await serve(t, (req, res) => {
    const [name, body] = codings[Number(req.url?.slice(1))] ?? ['', Buffer.of()]
    res.writeHead(200, { 'content-encoding': name }).end(body)
  })
  const http = client(t)
  for (const [i, [name]] of codings.entries())
    t.equal(await (await http.send(get(`${url}/${i}`))).text(), text, name)
  const head = await http.send(get(`${url}/0`, { method: 'HEAD' }))
  t.equal(await head.text(), '', 'HEAD has a coding and no body')
})

t.test('a body over the limit ends early', async (t) => {
  const bomb = zlib.gzipSync(Buffer.alloc(50 * 1024 * 1024))
  const url = await serve(t, (req, res) => {
    if (req.url === '/bomb') res.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb)
    else res.end('x'.repeat(2_000))
  })
  const http = client(t)
  for (const path of ['/bomb', '/plain']) {
    const error = await failure(http.send(get(url + path, { maxBody: 1_000 })))
    t.equal(error.kind, 'too-large', path)
    t.match(error.message, /over 1000 B/, path)
  }
  const free = await http.send(get(`${url}/bomb`, { maxBody: Infinity }))
  t.equal((await free.bytes()).length, 50 * 1024 * 1024)
  t.equal((await failure(http.send(get(`${url}/bomb`)))).kind, 'too-large', '10 MB by default')
})

t.test('a reply that breaks off is an error, not a short text', async (t) => {
  const ok = 'HTTP/1.1 200 OK\r\n'
  const zipped = zlib.gzipSync('text '.repeat(99)).subarray(0, 20).toString('latin1')
  const cases: [string, string, HttpError['kind'], ('end' | 'reset' | 'silence')?][] = [
    ['length not reached', `${ok}Content-Length: 9\r\n\r\nabc`, 'cut'],
    ['chunks without an end', `${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`, 'cut'],
    ['a bad chunk', `${ok}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n`, 'cut'],
    ['reset in the body', `${ok}Content-Length: 9\r\n\r\nabc`, 'cut', 'reset'],
    ['gzip without an end', `${ok}Content-Encoding: gzip\r\n\r\n${zipped}`, 'cut'],
    ['no gzip at all', `${ok}Content-Encoding: gzip\r\n\r\nhello`, 'cut'],
    ['an unknown coding', `${ok}Content-Encoding: rot13\r\n\r\nhello`, 'cut'],
    ['two codings', `${ok}Content-Encoding: gzip,br\r\n\r\nhello`, 'cut'],
    ['no HTTP', 'SSH-2.0-OpenSSH\r\n', 'unreachable'],
    ['closed without a word', '', 'unreachable'],
    ['half the headers', `${ok}Content-Le`, 'unreachable'],
    ['silence in the body', `${ok}Content-Length: 9\r\n\r\nabc`, 'idle', 'silence'],
    ['silence before it', '', 'timeout', 'silence'],
  ]
  for (const [name, bytes, kind, then] of cases) {
    const url = await serveRaw(t, bytes, then)
    const short = kind === 'timeout' ? { timeout: 50 } : {}
    const error = await failure(client(t).send(get(`${url}/?key=hush`, { idle: 50, ...short })))
    t.equal(error.kind, kind, name)
    t.match(error.message, /127\.0\.0\.1:\d+/, `${name}: ${error.message}`)
    t.notMatch(error.message, /hush/, name)
  }
})

t.test('a reader that takes its time is no silence of the server', async (t) => {
  const url = await serve(t, (_req, res) => {
    res.write('one')
    setTimeout(() => res.end('two'), 20)
  })
  const reply = await client(t).send(get(url, { idle: 60 }))
  const seen: string[] = []
  for await (const piece of reply.body) {
    seen.push(piece.toString())
    await new Promise((later) => setTimeout(later, 100))
  }
  t.equal(seen.join(''), 'onetwo')
})

t.test('a server that cannot be reached is named, with the reason', async (t) => {
  const port = await listen(t, createServer())
  const closed = createServer()
  const gone = await listen({ teardown: () => {} }, closed)
  await new Promise((done) => closed.close(done))
  const cases: [string, HttpError['kind'], RegExp][] = [
    [`http://127.0.0.1:${gone}/?key=hush`, 'unreachable', /127\.0\.0\.1:\d+: connection refused/],
    ['http://no-such-host.invalid/?key=hush', 'unreachable', /no-such-host\.invalid/],
    [`https://127.0.0.1:${port}/?key=hush`, 'unreachable', /127\.0\.0\.1/],
    ['hush', 'refused', /URL/],
    ['ftp://hush/', 'refused', /https:/],
    ['http://me:hush@127.0.0.1:1/', 'unreachable', /refused/],
  ]
  for (const [url, kind, message] of cases) {
    const error = await failure(client(t).send(get(url)))
    t.equal(error.kind, kind, error.message)
    t.match(error.message, message)
    t.notMatch(error.message, /hush/)
  }
})

t.test('localhost is either address of this machine', async (t) => {
  for (const host of ['127.0.0.1', '::1']) {
    const server = createServer((_req, res) => res.end(host))
    await new Promise<void>((ready) => server.listen(0, host, ready))
    t.teardown(() => (server.closeAllConnections(), server.close()))
    const { port } = server.address() as AddressInfo
    t.equal(await (await client(t).send(get(`http://localhost:${port}/`))).text(), host)
  }
})

t.test('a connection has a deadline of its own', async (t) => {
  const dns = process.getBuiltinModule('node:dns')
  const { lookup } = dns
  t.teardown(() => Object.assign(dns, { lookup }))
  dns.lookup = (() => {}) as unknown as typeof lookup // a resolver that never answers
  const error = await failure(client(t).send(get('http://far.test/', { connect: 30 })))
  t.match(error, { kind: 'unreachable', message: /no connection in time/ })
  dns.lookup = lookup
  const url = await serve(t, (_req, res) => void setTimeout(() => res.end('late'), 60))
  const http = client(t)
  for (const _ of ['a new connection', 'a kept one'])
    t.equal(await (await http.send(get(url, { connect: 40 }))).text(), 'late')
})

t.test('a header cannot smuggle another one in', async (t) => {
  for (const [name, value] of [
    ['x-a', 'b\r\nx-evil: 1'],
    ['x-a\r\nx-evil', '1'],
    ['x-a', '日本'],
    ['', 'x'],
    ['Content-Length', '3'],
    ['Transfer-Encoding', 'chunked'],
  ] as const) {
    const error = await failure(
      client(t).send(get('http://127.0.0.1:1/', { headers: { [name]: value } })),
    )
    t.equal(error.kind, 'refused')
    t.notMatch(error.message, /[\r\n]/)
  }
})

t.test('redirects are followed as far as asked, and keep credentials at home', async (t) => {
  const seen: string[] = []
  const note: RequestListener = (req, res) => {
    const {
      authorization = '-',
      'x-api-key': key = '-',
      cookie = '-',
      'x-n': n = '-',
    } = req.headers
    seen.push([req.method, req.url, authorization, key, cookie, n].join(' '))
    const [, status, to] = /^\/(\d+)\?(.*)$/.exec(req.url ?? '') ?? []
    if (req.url === '/loop') res.writeHead(302, { location: 'loop' })
    if (status !== undefined) res.writeHead(Number(status), { location: decodeURIComponent(to!) })
    res.end(req.url)
  }
  const [here, there] = [await serve(t, note), await serve(t, note)]
  const http = client(t)
  const headers = { Authorization: 'secret', 'X-Api-Key': 'k', Cookie: 'c', 'X-N': 'n' }
  const send = (path: string, more: Partial<HttpRequest> = {}) => {
    seen.length = 0
    return http.send(get(here + path, { headers, redirects: 3, ...more }))
  }
  const cases: [string, string, string][] = [
    ['GET', '/302?/end', 'GET /end secret k c n'],
    ['GET', `/302?${encodeURIComponent(`${there}/end`)}`, 'GET /end - - - -'],
    ['HEAD', '/303?/end', 'HEAD /end secret k c n'],
    ['GET', '/307?/end', 'GET /end secret k c n'],
  ]
  for (const [method, path, last] of cases) {
    const reply = await send(path, { method })
    await reply.bytes()
    t.equal(seen.at(-1), last, `${method} ${path}`)
    t.match(reply.url, /\/end$/)
  }
  t.equal((await send('/302?/end', { redirects: 0 })).status, 302, 'handed back when not asked')
  t.equal((await send('/307?/end', { method: 'POST', body: 'b' })).status, 307, 'never sent twice')
  t.equal((await send('/304?/end')).status, 304, 'not every 3xx redirects')
  t.equal((await send('/loop')).status, 302, 'handed back where too many were followed')
  t.equal(seen.length, 4, 'the first and three more')
  t.equal((await failure(send('/302?file:///etc/passwd'))).kind, 'refused')
})

t.test('publicOnly refuses what is not on the public internet', async (t) => {
  let reached = 0
  const url = await serve(t, (_req, res) => {
    reached += 1
    res.end()
  })
  const port = new URL(url).port
  const http = client(t)
  await (await http.send(get(url))).bytes()
  const hosts = ['127.0.0.1', 'localhost', '127.1', '2130706433', '0x7f.1', '0177.0.0.1', '0']
  hosts.push('[::1]', '[::ffff:127.0.0.1]', '[::]', 'localhost.', 'a.localhost', 'printer.local')
  for (const host of hosts) {
    const error = await failure(http.send(get(`http://${host}:${port}/`, { publicOnly: true })))
    t.equal(error.kind, 'private', `${host}: ${error.message}`)
  }
  t.equal(reached, 1)
  const dns = process.getBuiltinModule('node:dns').promises
  const { lookup } = dns
  t.teardown(() => Object.assign(dns, { lookup }))
  for (const found of [['127.0.0.1'], ['8.8.8.8', '::1'], ['fd00::1']]) {
    const answer = found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    dns.lookup = (async () => answer) as unknown as typeof lookup
    const rebound = get(`http://rebind.example:${port}/`, { publicOnly: true })
    t.equal((await failure(http.send(rebound))).kind, 'private', `a name for ${found}`)
    const proxied = client(t, { http_proxy: '127.0.0.1:1' })
    t.equal((await failure(proxied.send(rebound))).kind, 'private', 'through a proxy too')
  }
  t.equal(reached, 1)
  const addresses: [string, boolean][] = [
    ['8.8.8.8', true],
    ['2606:4700::1111', true],
    ['::ffff:8.8.8.8', true],
    ['64:ff9b::8.8.8.8', true],
    ['64:ff9b::10.0.0.1', false],
    ['10.1.2.3', false],
    ['172.31.0.1', false],
    ['172.32.0.1', true],
    ['192.168.0.1', false],
    ['169.254.169.254', false],
    ['100.64.0.1', false],
    ['0.0.0.0', false],
    ['203.0.113.9', false],
    ['239.1.1.1', false],
    ['255.255.255.255', false],
    ['::1', false],
    ['::ffff:10.0.0.1', false],
    ['fe80::1%eth0', false],
    ['fd00::1', false],
    ['ff02::1', false],
    ['2001:db8::1', false],
    ['no address', false],
  ]
  for (const [address, expected] of addresses) t.equal(isPublicAddress(address), expected, address)
})

t.test('an abort ends the socket and gives the reason of the signal', async (t) => {
  const closed: Promise<void>[] = []
  let arrived = Promise.withResolvers<void>()
  const url = await serve(t, (req, res) => {
    closed.push(new Promise((done) => req.socket.once('close', () => done())))
    if (req.url === '/body') res.write('some')
    arrived.resolve()
  })
  for (const path of ['/headers', '/body']) {
    arrived = Promise.withResolvers<void>()
    const end = new AbortController()
    const reading = client(t)
      .send(get(url + path, { signal: end.signal }))
      .then((reply) => reply.bytes())
    await arrived.promise
    end.abort(new TaiError('enough'))
    await t.rejects(reading, { message: 'enough' }, path)
    await closed.at(-1)
  }
  const before = AbortSignal.abort(new TaiError('before'))
  await t.rejects(client(t).send(get(url, { signal: before })), { message: 'before' })
})

t.test('cancel and a reader that leaves end the socket', async (t) => {
  let closed = Promise.withResolvers<void>()
  const url = await serve(t, (req, res) => {
    req.socket.once('close', () => closed.resolve())
    res.write('some')
  })
  const http = client(t)
  const first = await http.send(get(url))
  const reading = t.rejects(first.bytes(), /given up/)
  first.cancel()
  await Promise.all([reading, closed.promise])
  closed = Promise.withResolvers<void>()
  const second = await http.send(get(url))
  for await (const piece of second.body) {
    t.equal(piece.toString(), 'some')
    break
  }
  await closed.promise
})

t.test('a connection is used again, and once more on a fresh one when it was closed', async (t) => {
  const sockets = new Set<Socket>()
  let requests = 0
  const server = createRawServer((socket) => {
    sockets.add(socket)
    let own = 0
    socket.on('error', () => {})
    socket.on('data', () => {
      requests += 1
      own += 1
      if (own === 3) socket.resetAndDestroy()
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  const http = client(t)
  for (let i = 0; i < 3; i++)
    t.equal(await (await http.send(get(url, { method: 'POST', body: 'x' }))).text(), 'ok')
  t.equal(sockets.size, 2)
  t.equal(requests, 4)
  for (const socket of sockets) socket.destroy()
})

t.test('close ends connections in use', async (t) => {
  const url = await serve(t, (_req, res) => res.write('some'))
  const http = new HttpClient({})
  const reply = await http.send(get(url))
  const reading = t.rejects(reply.bytes(), /broke off/)
  await http.close()
  await reading
})

t.test('a Unix socket is reached by its path', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tai-http-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const socketPath = join(folder, 's')
  const server = createServer((req, res) => res.end(req.headers.host))
  await new Promise<void>((ready) => server.listen(socketPath, ready))
  t.teardown(() => server.close())
  const http = client(t, { HTTP_PROXY: 'http://127.0.0.1:1' })
  const reply = await http.send(get('http://service/x', { socketPath }))
  t.equal(await reply.text(), 'service')
  const missing = await failure(http.send(get('http://service/', { socketPath: `${socketPath}x` })))
  t.match(missing, { kind: 'unreachable', message: /ENOENT/ })
})

const via = (url: string, env: Record<string, string>): string | undefined =>
  proxyFor(new URL(url), env)?.url.host

t.test('the environment says which proxy serves a URL', (t) => {
  const p = { HTTPS_PROXY: 'http://p:1' }
  const cases: [string, Record<string, string>, string | undefined][] = [
    ['https://a.b/', p, 'p:1'],
    ['http://a.b/', p, undefined],
    ['http://a.b/', { HTTP_PROXY: 'p:1' }, 'p:1'],
    ['http://a.b/', { ALL_PROXY: 'p:1' }, 'p:1'],
    ['https://a.b/', { ...p, https_proxy: 'http://q:2' }, 'q:2'],
    ['https://a.b/', { ...p, https_proxy: '' }, 'p:1'],
    ['https://localhost/', p, undefined],
    ['https://127.9.9.9/', p, undefined],
    ['https://[::1]/', p, undefined],
    ['https://x.localhost/', p, undefined],
    ['https://a.b/', { ...p, NO_PROXY: '*' }, undefined],
    ['https://a.b/', { ...p, NO_PROXY: 'a.b' }, undefined],
    ['https://x.a.b/', { ...p, NO_PROXY: 'c, A.B' }, undefined],
    ['https://x.a.b/', { ...p, NO_PROXY: '.a.b' }, undefined],
    ['https://x.a.b/', { ...p, NO_PROXY: '*.a.b' }, undefined],
    ['https://xa.b/', { ...p, NO_PROXY: 'a.b' }, 'p:1'],
    ['https://a.b:8443/', { ...p, NO_PROXY: 'a.b:443' }, 'p:1'],
    ['https://a.b/', { ...p, no_proxy: 'a.b:443' }, undefined],
    ['https://10.1.2.3/', { ...p, NO_PROXY: '10.1.2.3' }, undefined],
    ['https://a.b/', { ...p, NO_PROXY: ',/, ' }, 'p:1'],
    ['https://[fd00::1]/', { ...p, NO_PROXY: 'fd00::1' }, undefined],
    ['https://[fd00::1]:99/', { ...p, NO_PROXY: '[fd00::1]:99' }, undefined],
  ]
  for (const [url, env, host] of cases)
    t.equal(via(url, env), host, `${url} ${JSON.stringify(env)}`)
  for (const broken of ['http://u:hush@', 'socks5://u:hush@h:1', 'http://u:hush@h:99999'])
    t.throws(
      () => proxyFor(new URL('https://a.b'), { HTTPS_PROXY: broken }),
      { message: /^HTTPS_PROXY is not the URL of an HTTP proxy$/ },
      broken,
    )
  t.end()
})

// --- proxies and certificates ---

/** A CA and a certificate for 127.0.0.1 and far.test signed by it, as PEM files in a folder of their own. */
function makeCertificates(t: T): { folder: string; ca: string; key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tai-tls-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const openssl = (line: string) =>
    execFileSync('openssl', line.split(' '), { cwd: folder, stdio: 'pipe' })
  writeFileSync(join(folder, 'ext'), 'subjectAltName=IP:127.0.0.1,DNS:far.test\n')
  const ec = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
  openssl(`req -x509 ${ec} -keyout ca.key -out ca.pem -subj /CN=tai-test-ca -days 2`)
  openssl(`req -new ${ec} -keyout key.pem -out csr.pem -subj /CN=127.0.0.1`)
  openssl('x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -out cert.pem -days 2 -extfile ext')
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  return { folder, ca: join(folder, 'ca.pem'), key: read('key.pem'), cert: read('cert.pem') }
}

/** What a tai of its own process, with these variables, gets from a URL. */
async function fetchElsewhere(url: string, env: Record<string, string>): Promise<string> {
  const script = `
    const { HttpClient } = await import(${JSON.stringify(new URL('../tai.ts', import.meta.url).href)})
    const http = new HttpClient(process.env)
    const reply = http.send({ method: 'GET', url: ${JSON.stringify(url)}, timeout: 5000 })
    console.log(await reply.then((r) => r.text(), (e) => [e.kind, e.message, e.hint].join('\\n')))
    await http.close()`
  return printedBy(script, env)
}

t.test('a private CA is trusted through NODE_EXTRA_CA_CERTS, and only so', async (t) => {
  const { ca, key, cert } = makeCertificates(t)
  const secure = createSecureServer({ key, cert }, (_req, res) => res.end('hello'))
  const port = await listen(t, secure)
  const url = `https://127.0.0.1:${port}/`
  const [trusted, unknown, other] = await Promise.all([
    fetchElsewhere(url, { NODE_EXTRA_CA_CERTS: ca }),
    fetchElsewhere(url, {}),
    fetchElsewhere(`https://localhost:${port}/`, { NODE_EXTRA_CA_CERTS: ca }),
  ])
  t.equal(trusted, 'hello')
  t.match(
    unknown,
    /^unreachable\ncannot reach 127\.0\.0\.1:\d+: .*unknown CA\n.*NODE_EXTRA_CA_CERTS/,
  )
  t.match(other, /^unreachable\n.*another name/)
  await using proxy = await startProxy(port, 'me:p@ss')
  const env = { NODE_EXTRA_CA_CERTS: ca, HTTPS_PROXY: `http://me:p%40ss@127.0.0.1:${proxy.port}` }
  t.equal(await fetchElsewhere('https://far.test/', env), 'hello', 'https through CONNECT')
  t.same(proxy.seen, ['CONNECT far.test:443'])
  const wrong = { HTTPS_PROXY: `http://me:hush@127.0.0.1:${proxy.port}` }
  const denied = await fetchElsewhere('https://far.test/', wrong)
  t.match(denied, /^unreachable\ncannot reach far\.test through the proxy 127.*\(HTTPS_PROXY\)/)
  t.notMatch(denied, /hush/)
})

t.test('plain http goes through a proxy in absolute form', async (t) => {
  const url = await serve(t, (req, res) => {
    if (req.url === '/in') return res.writeHead(302, { location: 'http://10.0.0.1/' }).end('in')
    res.writeHead(200, { 'content-encoding': 'gzip' })
    return res.end(zlib.gzipSync(`${req.method} ${req.headers.host}`))
  })
  await using proxy = await startProxy(Number(new URL(url).port), 'me:pw')
  const http = client(t, { HTTP_PROXY: `http://me:pw@127.0.0.1:${proxy.port}` })
  const reply = await http.send({ ...get('http://far.test/x?y'), method: 'POST', body: 'b' })
  t.equal(await reply.text(), 'POST far.test')
  t.same(proxy.seen, ['POST http://far.test/x?y'])
  await (await http.send(get(url))).bytes()
  t.equal(proxy.seen.length, 1, 'loopback is never proxied')
  const wrong = client(t, { HTTP_PROXY: `http://me:hush@127.0.0.1:${proxy.port}` })
  const denied = await failure(wrong.send(get('http://far.test/')))
  t.match(denied, { kind: 'unreachable', message: /user and password/ })
  t.notMatch(denied.message, /hush/)
  const inside = await failure(http.send(get('http://10.0.0.1/', { publicOnly: true })))
  t.equal(inside.kind, 'private', 'publicOnly holds through a proxy')
  const inward = await failure(
    http.send(get('http://far.test/in', { redirects: 1, publicOnly: true })),
  )
  t.match(inward, { kind: 'private', message: /10\.0\.0\.1/ }, 'and after a redirect')
  const dead = client(t, { HTTP_PROXY: 'http://127.0.0.1:1' })
  t.match(await failure(dead.send(get('http://far.test/'))), {
    kind: 'unreachable',
    message: 'cannot reach far.test through the proxy 127.0.0.1:1 (HTTP_PROXY): connection refused',
  })
})

t.test('deadlines and aborts hold through a proxy too', async (t) => {
  const url = await serve(t, (req, res) => {
    if (req.url === '/body') res.write('some')
  })
  await using proxy = await startProxy(Number(new URL(url).port))
  const http = client(t, { ALL_PROXY: `127.0.0.1:${proxy.port}` })
  const late = await failure(http.send(get('http://far.test/', { timeout: 60 })))
  t.equal(late.kind, 'timeout')
  const idle = await failure(http.send(get('http://far.test/body', { idle: 60 })))
  t.equal(idle.kind, 'idle')
  const end = new AbortController()
  const reply = await http.send(get('http://far.test/body', { signal: end.signal }))
  const reading = t.rejects(reply.bytes(), { message: 'enough' })
  end.abort(new TaiError('enough'))
  await reading
  const silent = client(t, { ALL_PROXY: await serveRaw(t, '', 'silence') })
  const tunnel = 'https://far.test/'
  t.match(await failure(silent.send(get(tunnel, { timeout: 60 }))), { kind: 'timeout' })
  const reason = new TaiError('stop')
  await t.rejects(silent.send(get(tunnel, { signal: AbortSignal.timeout(60) })), /timeout/)
  await t.rejects(silent.send(get(tunnel, { signal: AbortSignal.abort(reason) })), reason)
})

// --- server-sent events ---

type SseEvent = ReturnType<SseReader['feed']>[number]
const event = (data: string, more: Partial<SseEvent> = {}): SseEvent => ({
  event: 'message',
  data,
  id: undefined,
  ...more,
})

const streams: [string, string, SseEvent[]][] = [
  ['LF', 'data: a\n\ndata: b\n\n', [event('a'), event('b')]],
  ['CRLF', 'data: a\r\n\r\ndata: b\r\n\r\n', [event('a'), event('b')]],
  ['CR', 'data: a\r\rdata: b\r\r', [event('a'), event('b')]],
  ['mixed ends', 'data: a\r\n\ndata: b\n\r\n', [event('a'), event('b')]],
  [
    'no space, one space, two',
    'data:a\n\ndata: b\n\ndata:  c\n\n',
    ['a', 'b', ' c'].map((d) => event(d)),
  ],
  ['several lines', 'data: a\ndata\ndata: b\n\n', [event('a\n\nb')]],
  ['a mark before, not within', '\ufeffdata: a\n\n\ufeffdata: b\n\n', [event('a')]],
  ['comments', ': hi\n\n:\ndata: a\n: x\n\n', [event('a')]],
  [
    'names and ids',
    'event: e\nid: 7\ndata: a\n\ndata: b\n\n',
    [event('a', { event: 'e', id: '7' }), event('b', { id: '7' })],
  ],
  ['an id with NUL', 'id: 7\nid: a\0b\ndata: a\n\n', [event('a', { id: '7' })]],
  ['an empty data line', 'data\n\ndata:\n\n', [event(''), event('')]],
  ['no data line', 'event: e\nid: 1\n\n', []],
  ['other separators', 'data: a\u2028b\u0085c\u000bd\n\n', [event('a\u2028b\u0085c\u000bd')]],
  ['characters of many bytes', 'data: é日🙂\n\n', [event('é日🙂')]],
  ['the last one left open', 'data: a\n\ndata: b\n', [event('a'), event('b')]],
  ['and its line too', 'data: a\n\ndata: b', [event('a'), event('b')]],
  ['unknown fields', 'foo: x\nDATA: y\n data: z\ndata: a\n\n', [event('a')]],
]

t.test('SseReader reads every framing, however it is cut', (t) => {
  for (const [name, text, expected] of streams) {
    const bytes = Buffer.from(text)
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const reader = new SseReader(1_000)
      const events: SseEvent[] = []
      for (let at = 0; at < bytes.length; at += size)
        events.push(...reader.feed(bytes.subarray(at, at + size)))
      events.push(...reader.end())
      t.same(events, expected, `${name}, pieces of ${size}`)
    }
  }
  t.end()
})

t.test('SseReader gives an event as soon as it is whole', (t) => {
  const reader = new SseReader(1_000)
  t.same(reader.feed(Buffer.from('id: 1\nretry: 250\ndata: a\r\n\r')), [event('a', { id: '1' })])
  t.same(reader.feed(Buffer.from('\nid: 2\nretry: soon\n\n')), [])
  t.equal(reader.lastId, '2', 'an event without data still moves the id')
  t.equal(reader.retry, 250)
  t.same(reader.end(), [])
  t.end()
})

t.test('SseReader counts an id once its event has ended', (t) => {
  const reader = new SseReader(1_000)
  reader.feed(Buffer.from('id: 1\ndata: a\n\nid: 2\ndata: b\n'))
  t.equal(reader.lastId, '1', 'a stream that breaks off here lost the second event')
  t.end()
})

t.test('SseReader ends an event that grows without end', (t) => {
  const line = Buffer.from(`data: ${'x'.repeat(60)}\n`)
  const long = new SseReader(100)
  t.throws(() => long.feed(Buffer.concat([line, line])), TaiError)
  const endless = new SseReader(100)
  endless.feed(Buffer.from('x'.repeat(90)))
  t.throws(() => endless.feed(Buffer.from('x'.repeat(90))), TaiError)
  const many = new SseReader(100)
  const each = Buffer.concat([line, Buffer.from('\n')])
  t.equal(many.feed(Buffer.concat([each, each, each])).length, 3)
  t.end()
})
