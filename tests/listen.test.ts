/* oxlint-disable max-lines-per-function -- tables of cases */
// The served port as clients and strangers meet it: the wire rules as a table, family g of the cases,
// and what bad clients send.
import t from 'tap'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import {
  Door,
  MCP_PIPELINE_MAX,
  McpServeContext,
  mcpServeHandler,
  mcpServeMain,
  TOOLS,
} from '../tai.ts'
import { complains } from './fakes/complaint.ts'
import {
  begin,
  connect,
  INITIALIZE,
  KEY,
  openApp,
  type Peer,
  rawPost,
  send,
  serve,
  textOf,
  type Reply,
} from './fakes/served.ts'
import { ended, folder, start, tai } from './fakes/tai.ts'

type Row = {
  host?: string
  origin?: string | null
  want: number | string
  body: string
  initialize?: string | null
  header?: string
  later_header?: string | null
}

/** What a case of family g gives: its rows, or the bytes it sends. */
function inputOf(id: string): { rows: Row[]; send: string } {
  const lines = readFileSync(new URL('./data/cases.jsonl', import.meta.url), 'utf8').split('\n')
  return JSON.parse(
    lines.find((line) => line.includes(`"id": "${id}"`) || line.includes(`"id":"${id}"`)) ?? '',
  ).input
}

const message = (method: string, more: object = {}) => ({ jsonrpc: '2.0', id: 7, method, ...more })
const initialize = message('initialize', { params: INITIALIZE })
const ping = message('ping')
const call = (name: unknown, args?: unknown) =>
  message('tools/call', { params: { name, arguments: args } })

/** What every answer has. */
const wellFormed = ({ headers, text, status }: Reply): boolean =>
  headers['content-length'] === String(Buffer.byteLength(text)) &&
  headers['cache-control'] === 'no-store' &&
  (text === ''
    ? headers['content-type'] === undefined
    : headers['content-type'] === 'application/json') &&
  headers['access-control-allow-origin'] === undefined &&
  (status !== 202 || text === '')

const TOO_LARGE = Buffer.alloc(10_485_761, ' ')
type WireRow = [
  name: string,
  request: Parameters<typeof send>[1] & object,
  status: number,
  body?: object | string,
]

/** What the wire's rules say, for a session that lives and one that was deleted. */
// biome-ignore format: a table
const wireRows = (inSession: object & Record<string, string>, gone: Record<string, string>): WireRow[] => [
    [
      'foreign Origin',
      { headers: { origin: 'https://evil.example' }, body: ping },
      403,
      { error: { code: -32600 } },
    ],
    ['Origin null', { headers: { origin: 'null' }, body: ping }, 403],
    ['Origin of another port', { headers: { origin: 'http://localhost:1' }, body: ping }, 200],
    ['Origin [::1]', { headers: { origin: 'http://[::1]:9' }, body: ping }, 200],
    ['Origin 127.0.0.1', { headers: { origin: 'http://127.0.0.1' }, body: ping }, 200],
    [
      'two Origins',
      { headers: { origin: 'http://localhost, http://evil.example' }, body: ping },
      403,
    ],
    ['no Origin', { body: ping }, 200, { result: {} }],
    ['foreign Host', { headers: { host: 'evil.example' }, body: ping }, 403],
    [
      'foreign Host without a key',
      { headers: { host: 'evil.example', authorization: undefined } },
      403,
    ],
    ['no key', { headers: { authorization: undefined }, body: ping }, 401],
    ['no key, no such path', { headers: { authorization: undefined }, path: '/other' }, 401],
    ['another key', { headers: { authorization: 'Bearer other' }, body: ping }, 401],
    [
      'the start of the key',
      { headers: { authorization: `Bearer ${KEY.slice(0, -1)}` }, body: ping },
      401,
    ],
    ['the key and more', { headers: { authorization: `Bearer ${KEY}x` }, body: ping }, 401],
    ['the key as another scheme', { headers: { authorization: `Basic ${KEY}` }, body: ping }, 401],
    ['the key alone', { headers: { authorization: KEY }, body: ping }, 401],
    ['a scheme in small letters', { headers: { authorization: `bearer ${KEY}` }, body: ping }, 200],
    ['only event streams wanted', { headers: { accept: 'text/event-stream' }, body: ping }, 406],
    ['no Accept', { headers: { accept: undefined }, body: ping }, 200],
    ['Accept */*', { headers: { accept: '*/*' }, body: ping }, 200],
    ['Accept application/json', { headers: { accept: 'application/json' }, body: ping }, 200],
    [
      'Accept application/*',
      { headers: { accept: 'text/html, application/*;q=0.8' }, body: ping },
      200,
    ],
    ['text', { headers: { 'content-type': 'text/plain' }, body: ping }, 415],
    ['no type', { headers: { 'content-type': undefined }, body: ping }, 415],
    [
      'a type with parameters',
      { headers: { 'content-type': 'Application/JSON; charset=utf-8' }, body: ping },
      200,
    ],
    ['a compressed body', { headers: { 'content-encoding': 'gzip' }, body: ping }, 415],
    ['too large', { body: TOO_LARGE }, 413],
    ['too large, in chunks', { body: TOO_LARGE, headers: { 'transfer-encoding': 'chunked' } }, 413],
    ['not JSON', { body: '{"jsonrpc":' }, 400, { id: null, error: { code: -32700 } }],
    [
      'not UTF-8',
      { body: Buffer.from('{"a":"\xff"}', 'latin1') },
      400,
      { error: { code: -32700 } },
    ],
    [
      'a byte order mark',
      { body: `\ufeff${JSON.stringify(ping)}` },
      400,
      { error: { code: -32700 } },
    ],
    ['no body', { body: '' }, 400, { error: { code: -32700 } }],
    ['a list', { body: [ping] }, 400, { id: null, error: { code: -32600 } }],
    ['no message', { body: { hello: 1 } }, 400, { error: { code: -32600 } }],
    ['initialize', { body: initialize }, 200, { result: { protocolVersion: '2025-11-25' } }],
    [
      'initialize on a live session',
      { body: initialize, headers: inSession },
      400,
      { id: 7, error: { code: -32600 } },
    ],
    ['and it stays as it was', { body: ping, headers: inSession }, 200, { result: {} }],
    [
      'initialize on a session that is gone',
      { body: initialize, headers: gone },
      200,
    ],
    ['a notification', { body: { jsonrpc: '2.0', method: 'x' }, headers: inSession }, 202, ''],
    ['a notification without a session', { body: { jsonrpc: '2.0', method: 'x' } }, 202, ''],
    ['a response', { body: { jsonrpc: '2.0', id: 1, result: {} }, headers: inSession }, 202, ''],
    [
      'an error of the client',
      { body: { jsonrpc: '2.0', id: 1, error: { code: 1, message: '' } } },
      202,
      '',
    ],
    [
      'a list without a session',
      { body: message('tools/list') },
      400,
      { id: 7, error: { code: -32600 } },
    ],
    [
      'a call without a session',
      { body: call('time_now') },
      400,
      { id: 7, error: { code: -32600 } },
    ],
    [
      'an unknown session',
      { body: ping, headers: { 'mcp-session-id': 'x.y.z' } },
      404,
      { id: 7, error: { code: -32001 } },
    ],
    [
      'a session that was deleted',
      { body: ping, headers: gone },
      404,
      { error: { code: -32001 } },
    ],
    [
      'a forged session',
      { body: ping, headers: { 'mcp-session-id': `${inSession['mcp-session-id']?.slice(0, -1)}!` } },
      404,
    ],
    [
      'a notification in an unknown session',
      { body: { jsonrpc: '2.0', method: 'x' }, headers: { 'mcp-session-id': 'x' } },
      404,
    ],
    ['no version', { body: ping, headers: inSession }, 200],
    [
      'an old version',
      { body: ping, headers: { ...inSession, 'mcp-protocol-version': '2024-11-05' } },
      200,
    ],
    [
      'an unknown version',
      { body: ping, headers: { ...inSession, 'mcp-protocol-version': '1999-01-01' } },
      400,
      { id: 7, error: { code: -32600, message: /2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05/ } },
    ],
    ['GET', { method: 'GET', headers: inSession }, 405],
    ['PUT', { method: 'PUT' }, 405],
    ['PATCH', { method: 'PATCH' }, 405],
    ['OPTIONS', { method: 'OPTIONS' }, 405],
    [
      'OPTIONS of a foreign page',
      { method: 'OPTIONS', headers: { origin: 'http://evil.example' } },
      403,
    ],
    ['DELETE of no session', { method: 'DELETE' }, 404, { error: { code: -32001 } }],
    ['DELETE again', { method: 'DELETE', headers: gone }, 404],
    ['another path', { path: '/other', body: ping }, 404],
    ['a path that begins alike', { path: '/mcpx', body: ping }, 404],
    ['a path above', { path: '/mcp/../mcp', body: ping }, 404],
    ['a query', { path: '/mcp?a=b', body: ping }, 200],
    [
      'an unknown method',
      { body: message('resources/subscribe'), headers: inSession },
      200,
      { id: 7, error: { code: -32601 } },
    ],
    [
      'a method of every object',
      { body: message('constructor'), headers: inSession },
      200,
      { error: { code: -32601 } },
    ],
    [
      'another one',
      { body: message('__proto__'), headers: inSession },
      200,
      { error: { code: -32601 } },
    ],
    [
      'an unknown tool',
      { body: call('no_such_tool', {}), headers: inSession },
      200,
      { error: { code: -32601, data: { tool: 'no_such_tool' } } },
    ],
    [
      'a tool of every object',
      { body: call('constructor', {}), headers: inSession },
      200,
      { error: { code: -32601 } },
    ],
    [
      'no arguments',
      { body: call('time_now'), headers: inSession },
      200,
      { result: { content: [{ type: 'text' }] } },
    ],
    [
      'bad arguments',
      { body: call('read_file', { path: 7 }), headers: inSession },
      200,
      { error: { code: -32602, message: /path/ } },
    ],
    [
      'a missing argument',
      { body: call('read_file', {}), headers: inSession },
      200,
      { error: { code: -32602, message: /path/ } },
    ],
    [
      'an argument too many',
      { body: call('time_now', { nope: 1 }), headers: inSession },
      200,
      { error: { code: -32602, message: /nope/ } },
    ],
    [
      'arguments that are a list',
      { body: call('time_now', []), headers: inSession },
      200,
      { error: { code: -32602 } },
    ],
    [
      'a name that is no text',
      { body: call(7, {}), headers: inSession },
      200,
      { error: { code: -32602 } },
    ],
    [
      'a tool that ran and failed',
      { body: call('read_file', { path: 'nowhere' }), headers: inSession },
      200,
      { result: { isError: true } },
    ],
  ]

t.test('the rules of the wire, row by row', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const deleted = await begin(server)
  t.match(await deleted.end(), { status: 200, text: '' })
  const rows = wireRows({ 'mcp-session-id': peer.session }, { 'mcp-session-id': deleted.session })
  for (const [name, request, status, body] of rows) {
    const reply = await send(server, request)
    t.equal(reply.status, status, `${name}: ${reply.text}`)
    t.ok(wellFormed(reply), `${name}: ${JSON.stringify(reply.headers)}`)
    if (typeof body === 'object') t.match(reply.body, { jsonrpc: '2.0', ...body }, name)
    else if (body !== undefined) t.equal(reply.text, body, name)
    if (status === 401) t.equal(reply.headers['www-authenticate'], 'Bearer', name)
    if (status === 405) t.equal(reply.headers.allow, 'POST, DELETE', name)
    const id = reply.headers['mcp-session-id']
    t.equal(id !== undefined, request.body === initialize && status === 200, name)
    t.ok(id === undefined || (/^[\x21-\x7e]{30,}$/.test(String(id)) && !String(id).includes(KEY)))
  }
  t.notMatch(server.said.out + server.said.err, KEY)
})

t.test(
  'g01: pages of other hosts are turned away, every name of this machine is not',
  async (t) => {
    const server = await serve(t)
    const withPort = (text: string) => text.replace(/:P$/, `:${server.port}`)
    for (const { host = '', origin, want } of inputOf('g01').rows) {
      const headers = { host: withPort(host), ...(origin && { origin: withPort(origin) }) }
      const reply = await send(server, { headers, body: initialize })
      t.equal(reply.status, typeof want === 'number' ? want : 200, `${host} ${origin}`)
      t.equal(reply.headers['mcp-session-id'] !== undefined, reply.status === 200)
    }
    const preflight = { origin: 'http://evil.example', 'access-control-request-method': 'POST' }
    const reply = await send(server, {
      method: 'OPTIONS',
      headers: { ...preflight, authorization: undefined },
    })
    t.equal(reply.status, 403)
    t.equal(reply.headers['access-control-allow-origin'], undefined)
  },
)

t.test('g03: the body of a refused request is never taken for the next one', async (t) => {
  const server = await serve(t)
  const text = inputOf('g03')
    .send.replaceAll('127.0.0.1:P', `127.0.0.1:${server.port}`)
    .replaceAll('k3y-Value', KEY)
  const [head = '', ...rest] = text.split('\r\n\r\n')
  const inner = text.slice(head.length + 4, text.lastIndexOf('POST /mcp'))
  const line = await connect(server)
  line.write(
    [head.replace(/Content-Length: \d+/, `Content-Length: ${inner.length}`), ...rest].join(
      '\r\n\r\n',
    ),
  )
  await Promise.race([line.closed, line.says(/"id":7/)])
  t.match(line.text, /^HTTP\/1\.1 401 [\s\S]*WWW-Authenticate: Bearer\r\n/)
  t.notMatch(line.text, /SMUGGLED/)
  line.socket.destroy()

  const early = await connect(server)
  early.write(`${head.replace(/Content-Length: \d+/, 'Content-Length: 500000')}\r\n\r\n`)
  await early.says(/^HTTP\/1\.1 401 [\s\S]*the key is missing or wrong/)
  early.socket.destroy()

  const others = [
    ['HEAD', '/mcp', 405],
    ['PUT', '/mcp', 405],
    ['GET', '/other', 404],
  ] as const
  for (const [method, path, status] of others) {
    const known = await send(server, { method, path })
    t.equal(known.status, status)
    if (status === 405) t.equal(known.headers.allow, 'POST, DELETE')
    const stranger = await send(server, { method, path, headers: { authorization: undefined } })
    t.equal(stranger.status, 401)
    t.equal(stranger.headers.allow, undefined)
    t.notMatch(stranger.text, /tai|mcp|path/i)
  }
})

t.test('g05: no depth of nesting ends the server, or leaves a request unanswered', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  for (const depth of [100, 1_000, 10_000, 200_000, 2_000_000]) {
    const list = `${'['.repeat(depth)}${']'.repeat(depth)}`
    const object = `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
    const head = '{"jsonrpc":"2.0","id":1,"method":'
    const bodies = [
      `${head}"ping","params":{"x":${list}}}`,
      `${head}"tools/call","params":{"name":"vault_write","arguments":{"content":"x","tags":${list}}}}`,
      `${head}"tools/call","params":{"name":"time_now","arguments":${object}}}`,
    ]
    for (const body of bodies.filter((it) => it.length < 10_485_760)) {
      const reply = await peer.post(body)
      const { error } = reply.body
      if (depth > 128) t.match([reply.status, error?.code], [400, -32600])
      else t.match(reply.status, 200)
      t.equal((await peer.ask('ping')).status, 200)
    }
  }
})

t.test('g09: lists and notifications', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  for (const { body, want } of inputOf('g09').rows) {
    const reply = await peer.post(body)
    const status = Number(/\b(202|400)\b/.exec(`${want}`)?.[1] ?? 200)
    t.equal(reply.status, status, body)
    t.ok(wellFormed(reply))
    if (status === 202) t.equal(reply.text, '')
    else if (status === 400) t.match(reply.body, { id: null, error: { code: -32600 } })
    else t.match(reply.body, { id: 3, error: { code: -32601 } })
  }
  t.match(await peer.ask('ping'), { status: 200 })
})

t.test('g11: versions', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  for (const { initialize: version, header, later_header: later, want } of inputOf('g11').rows) {
    if (version === undefined) {
      const headers = later === null ? {} : { 'mcp-protocol-version': later }
      const reply = await peer.post(ping, { headers })
      t.equal(reply.status, later?.startsWith('1999') ? 400 : 200, `${want}`)
      if (reply.status === 400) t.match(reply.body.error.message, /2025-11-25/)
      continue
    }
    const params =
      version === null ? { capabilities: {} } : { ...INITIALIZE, protocolVersion: version }
    const headers = { 'mcp-protocol-version': header }
    const reply = await send(server, { body: message('initialize', { params }), headers })
    const agreed = version?.startsWith('20') && version < '2026' ? version : '2025-11-25'
    t.equal(reply.status, 200, `${version} ${header}`)
    t.match(reply.body.result, {
      protocolVersion: agreed,
      capabilities: { tools: {} },
      serverInfo: { name: 'tai' },
    })
  }
  for (const protocolVersion of [7, {}, ['2025-11-25'], '2026-07-28', ''])
    t.match(
      (await send(server, { body: message('initialize', { params: { protocolVersion } }) })).body,
      {
        result: { protocolVersion: '2025-11-25' },
      },
    )
})

/** Requests as bytes, and how the answers to them begin. */
// biome-ignore format: a table
function oddRequests(port: number): [name: string, bytes: string, answer: RegExp][] {
  const pinged = JSON.stringify(ping)
  const good = rawPost(port, pinged)
  return [
    ['two lengths', rawPost(port, pinged, 'Content-Length: 1\r\n'), /^HTTP\/1\.1 400/],
    [
      'length and chunks',
      rawPost(port, pinged, 'Transfer-Encoding: chunked\r\n'),
      /^HTTP\/1\.1 400/,
    ],
    ['two Hosts', good.replace('\r\n', '\r\nHost: localhost\r\n'), /^HTTP\/1\.1 403/],
    [
      'two Hosts, the second foreign',
      good.replace('\r\nAuth', '\r\nHost: evil.example\r\nAuth'),
      /^HTTP\/1\.1 403/,
    ],
    ['no Host', good.replace(/Host: .*\r\n/, ''), /^HTTP\/1\.1 400/],
    ['an empty Host', good.replace(/Host: .*\r\n/, 'Host:\r\n'), /^HTTP\/1\.1 403/],
    [
      'two keys, the first wrong',
      good.replace('\r\nAuth', '\r\nAuthorization: Bearer x\r\nAuth'),
      /^HTTP\/1\.1 401/,
    ],
    [
      'two sessions',
      rawPost(port, pinged, 'Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n'),
      /^HTTP\/1\.1 404/,
    ],
    ['a key that is no ASCII', good.replace(KEY, 'k\u00e9y'), /^HTTP\/1\.1 401/],
    [
      'HTTP/1.0',
      good.replace('HTTP/1.1', 'HTTP/1.0'),
      /^HTTP\/1\.1 200 [\s\S]*Connection: close[\s\S]*"result":\{\}/i,
    ],
    [
      'HTTP/1.0 without Host',
      good.replace('HTTP/1.1', 'HTTP/1.0').replace(/Host: .*\r\n/, ''),
      /^HTTP\/1\.1 403/,
    ],
    [
      'Expect',
      rawPost(port, pinged, 'Expect: 100-continue\r\n'),
      /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200/,
    ],
    ['Expect something else', rawPost(port, pinged, 'Expect: a-wonder\r\n'), /^HTTP\/1\.1 417/],
    ['a method in small letters', good.replace('POST', 'post'), /^HTTP\/1\.1 400/],
    ['a path in capitals', good.replace(' /mcp ', ' /MCP '), /^HTTP\/1\.1 404/],
    ['chunks, in capitals', rawPost(port, pinged, 'TRANSFER-ENCODING: chunked\r\n'), /^HTTP\/1\.1 400/],
    ['a whole URL', good.replace(' /mcp ', ` http://127.0.0.1:${port}/mcp `), /^HTTP\/1\.1 404/],
    ['a URL of elsewhere', good.replace(' /mcp ', ' http://evil.example/mcp '), /^HTTP\/1\.1 404/],
    ['a tunnel', good.replace('POST /mcp', 'CONNECT evil.example:443'), /^$/],
    [
      'an upgrade',
      rawPost(port, pinged, 'Connection: Upgrade\r\nUpgrade: websocket\r\n'),
      /^HTTP\/1\.1 200/,
    ],
    ['no HTTP', 'hello\r\n\r\n', /^HTTP\/1\.1 400/],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', /^HTTP\/1\.1 400/],
    [
      'large headers',
      good.replace('\r\nAuth', `\r\nX: ${'x'.repeat(20_000)}\r\nAuth`),
      /^HTTP\/1\.1 431/,
    ],
    ['a negative length', good.replace(/Length: \d+/, 'Length: -1'), /^HTTP\/1\.1 400/],
    [
      'a length beyond numbers',
      good.replace(/Length: \d+/, 'Length: 99999999999999999999999'),
      /^HTTP\/1\.1 400/,
    ],
    ['a folded header', good.replace('\r\nAuth', '\r\nX: a\r\n b\r\nAuth'), /^HTTP\/1\.1 400/],
  ]
}

t.test('requests that are cut off, doubled, piled up or in old words', async (t) => {
  const server = await serve(t)
  const { port } = server
  const rows = oddRequests(port)
  const plain = rawPost(port, JSON.stringify(ping))
  for (const [name, bytes, answer] of rows)
    for (const before of ['', plain]) {
      const line = await connect(server)
      line.write(before)
      if (before) await line.says(/"result":\{\}\}$/)
      const { length } = line.text
      line.write(Buffer.from(bytes, 'latin1'))
      line.socket.end()
      await line.closed
      t.match(line.text.slice(length), answer, before ? `${name}, after a plain one` : name)
      t.notMatch(line.text, KEY, name)
    }
})

t.test('what ends a call is read behind it at once, however its bytes come', async (t) => {
  const server = await serve(t)
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
  const ways: ((post: (body: object) => string) => string[])[] = [
    (post) => [post({ ...ping, id: 8 }) + post(cancel)],
    (post) => [post(cancel).slice(0, 30), post(cancel).slice(30, -5), post(cancel).slice(-5)],
    (post) => [
      post(cancel)
        .replace('POST', 'DELETE')
        .replace(/Length: \d+([^]*?\r\n\r\n)[^]*/, 'Length: 0$1'),
    ],
    (post) => [`${post(cancel).split('Content-Length')[0]}\r\n`.replace('POST', 'DELETE')],
  ]
  for (const [i, pieces] of ways.entries()) {
    const { line, post } = await calling(server, await begin(server), `begun${i}`, 'sleep 30')
    const before = Date.now()
    for (const piece of pieces(post)) {
      line.write(piece)
      await send(server, { body: ping })
    }
    await line.says(/HTTP\/1\.1 20[02][^]*HTTP\/1\.1 20[02]/)
    t.ok(Date.now() - before < 15_000, `${i}`)
    t.match(line.text, /interrupted|-32000/, `${i}`)
  }
})

t.test('what a connection was answered is alike, however its requests arrive', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const asked = (id: number, headers = '') =>
    rawPost(server.port, JSON.stringify({ ...ping, id }), headers)
  const line = await connect(server)
  const heads: string[] = []
  const answered = async (id: number) => {
    await line.says(RegExp(`"id":${id},"result":\\{\\}\\}$`))
    const [head = ''] = line.text.split('\r\n\r\n').slice(-2)
    heads.push(
      head
        .replace(/^[^]*\}(?=HTTP)/, '')
        .replace(/Date: .*/, 'Date')
        .replace(/\r\n/g, '\n'),
    )
  }
  line.write(asked(10))
  await answered(10)
  line.write(asked(11))
  await answered(11)
  line.write(asked(12, `Mcp-Session-Id: ${peer.session}\r\nConnection: keep-alive\r\n`))
  await answered(12)
  line.write(asked(13).slice(0, 40))
  await send(server, { body: ping })
  line.write(asked(13).slice(40, -9))
  await send(server, { body: ping })
  line.write(asked(13).slice(-9))
  await answered(13)
  line.write(asked(14) + asked(15))
  await answered(15)
  line.socket.destroy()
  const sorted = heads.map((head) => head.split('\n').toSorted().join('\n'))
  t.equal(new Set(sorted).size, 1, 'their heads too')
})

/** A connection whose call has made the file `name`, and what is posted in its session, after spaces. */
async function calling(
  server: Awaited<ReturnType<typeof serve>>,
  peer: Peer,
  name: string,
  then: string,
) {
  const post = (body: object, spaces = 0) =>
    rawPost(
      server.port,
      ' '.repeat(spaces) + JSON.stringify(body),
      `Mcp-Session-Id: ${peer.session}\r\n`,
    )
  const line = await connect(server)
  line.write(post(call('shell_exec', { command: `touch ${name}; ${then}` })))
  const other = await begin(server)
  while (!textOf(await other.call('glob', { pattern: '*' })).includes(name)) {}
  return { line, post }
}

t.test('a call is interrupted from its own connection, and answered first', async (t) => {
  const server = await serve(t)
  const { line, post } = await calling(server, await begin(server), 'begun', 'sleep 30')
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
  line.write(post(cancelled))
  await line.says(/-32000[^]*HTTP\/1\.1 202/)
  line.write(`\0${rawPost(server.port, JSON.stringify(ping))}`)
  await line.says(/HTTP\/1\.1 400/)
  await line.closed
})

t.test(
  'what is no HTTP behind a call is told so, and what is too much ends the call',
  async (t) => {
    const server = await serve(t)
    const peer = await begin(server)
    const { line: odd } = await calling(server, peer, 'one', 'sleep 1')
    odd.write(`\0${rawPost(server.port, JSON.stringify(ping))}`)
    await odd.says(/HTTP\/1\.1 200[^]*HTTP\/1\.1 400/)
    const { line: left, post } = await calling(server, peer, 'two', 'sleep 30; touch done')
    const large = post(ping, 100_000)
    left.write(large)
    await send(server, { body: ping })
    left.socket.end()
    const { line: full } = await calling(server, peer, 'three', 'sleep 30; touch done')
    full.write(`\0${large.repeat(3)}`)
    await full.closed
    t.notMatch(textOf(await peer.call('glob', { pattern: '*' })), /done/)
  },
)

t.test('a head that is none holds nobody up', async (t) => {
  const server = await serve(t)
  const bad = Array.from({ length: 200 }, () => connect(server))
  for (const line of await Promise.all(bad)) line.write(`POST${'\r'.repeat(8_180)}\r\n\r\n`)
  const before = process.hrtime.bigint()
  await send(server, { body: ping })
  t.ok(
    process.hrtime.bigint() - before < 5_000_000_000n,
    'ten seconds, were it read anew at each byte',
  )
})

t.test('a client that leaves takes its call along, whatever it asked meanwhile', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const { line, post } = await calling(server, peer, 'begun', 'sleep 30; touch done')
  line.write(post(ping))
  await send(server, { body: ping })
  line.socket.end()
  t.match(textOf(await peer.call('glob', { pattern: '*' })), /^begun\n?$/)
})

t.test('as many requests as are taken at a time are answered in their order', async (t) => {
  const server = await serve(t)
  const { port } = server
  const pile = await connect(server)
  pile.write(
    Array.from({ length: MCP_PIPELINE_MAX }, (_, id) =>
      rawPost(port, JSON.stringify({ ...ping, id })),
    ).join(''),
  )
  await pile.says(new RegExp(`"id":${MCP_PIPELINE_MAX - 1},`))
  const ids = [...pile.text.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id))
  t.strictSame(
    ids,
    Array.from({ length: MCP_PIPELINE_MAX }, (_, id) => id),
    'answered in their order',
  )
  pile.socket.destroy()
  t.match((await send(server, { body: ping })).body, { result: {} })
})

t.test(
  'more unanswered requests on a connection than are taken end it, with their calls',
  async (t) => {
    const server = await serve(t)
    const peer = await begin(server)
    const inSession = `Mcp-Session-Id: ${peer.session}\r\n`
    const slow = (id: number) =>
      rawPost(
        server.port,
        JSON.stringify({ ...call('shell_exec', { command: `touch ${id}; sleep 30` }), id }),
        inSession,
      )
    const line = await connect(server)
    line.write(Array.from({ length: MCP_PIPELINE_MAX + 1 }, (_, id) => slow(id)).join(''))
    await line.closed
    t.equal(line.text, '')
    const list = await peer.call('glob', { pattern: '*' })
    t.notMatch(textOf(list), /^[1-9]/m, 'the waiting calls were given up, and answered for nobody')
  },
)

t.test('a client that leaves takes its waiting calls with it too', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const inSession = `Mcp-Session-Id: ${peer.session}\r\n`
  const line = await connect(server)
  for (const command of ['touch one; sleep 30', 'touch two; sleep 30', 'touch three'])
    line.write(rawPost(server.port, JSON.stringify(call('shell_exec', { command })), inSession))
  const other = await begin(server)
  while (!/one/.test(textOf(await other.call('glob', { pattern: '*' })))) {}
  line.socket.destroy()
  t.match(textOf(await peer.call('glob', { pattern: '*' })), /^one\n?$/)
})

t.test('halves of requests hold nobody up', async (t) => {
  const server = await serve(t)
  const open = await Promise.all(Array.from({ length: 30 }, () => connect(server)))
  for (const [i, line] of open.entries())
    line.write(rawPost(server.port, JSON.stringify(ping)).slice(0, 20 + 9 * i))
  for (let i = 0; i < 20; i++) t.equal((await send(server, { body: ping })).status, 200)
  for (const line of open) line.socket.destroy()
  t.equal((await send(server, { body: ping })).status, 200)
})

t.test('a body too large is refused before it is sent, and a stranger is not read', async (t) => {
  const server = await serve(t)
  const declared = await connect(server)
  declared.write(rawPost(server.port, '').replace('Length: 0', 'Length: 10485761'))
  await declared.says(/^HTTP\/1\.1 413 /)
  declared.socket.destroy()
  const chunked = await connect(server)
  chunked.write(rawPost(server.port, '').replace('Content-Length: 0', 'Transfer-Encoding: chunked'))
  const piece = `100000\r\n${' '.repeat(1_048_576)}\r\n`
  for (let i = 0; i < 11; i++) chunked.write(piece)
  await chunked.says(/^HTTP\/1\.1 413 /)
  chunked.socket.destroy()
  t.equal((await send(server, { body: ping })).status, 200)
})

t.test('a server that cannot be says why and what to do, and never its key', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  // biome-ignore format: a table
  const rows: [string[], number, RegExp, env?: Record<string, string>][] = [
    [['--serve-mcp', KEY, '--mcp-port', `${port}`], 1, /address already in use .*\n.*--mcp-port/],
    [
      ['--serve-mcp', KEY, '--mcp-bind', '192.0.2.1', '--mcp-port', '0'],
      1,
      /address not available 192\.0\.2\.1/,
    ],
    [['--serve-mcp', KEY, '--mcp-bind', 'no.such.host.invalid'], 1, /no\.such\.host\.invalid/],
    [['--serve-mcp', KEY, '--mcp-bind', ''], 2, /mcp_bind is ""/],
    [['--serve-mcp', KEY, '--mcp-port', 'http'], 2, /mcp_port is "http", not a port/],
    [['--serve-mcp', KEY, '--mcp-port', '65536'], 2, /mcp_port is "65536", not a port/],
    [['--serve-mcp', KEY, '--mcp-port=-1'], 2, /mcp_port is "-1", not a port/],
    [['--serve-mcp', KEY], 2, /mcp_port is "x"/, { TAI_MCP_PORT: 'x' }],
    [['--serve-mcp'], 2, /needs a key: at least 6 characters/],
    [['--serve-mcp', ''], 2, /needs a key: at least 6 characters/],
    [['--serve-mcp', '--mcp-port', '0'], 2, /needs a key: at least 6 characters/, { TAI_MCP_KEY: '' }],
    [['--serve-mcp', 's3cret-short', '--mcp-bind', '0.0.0.0'], 2, /needs a key: at least 16 characters/],
    [
      ['--serve-mcp', '--mcp-bind', '::'],
      2,
      /needs a key: at least 16 characters/,
      { TAI_MCP_KEY: 's3cret-short' },
    ],
    [['--serve-mcp', 's3cret-k\u00e9y-which-is-long'], 2, /needs a key: .* of ASCII, no spaces/],
    [['--serve-mcp', 's3cret with spaces in it'], 2, /needs a key: .* of ASCII, no spaces/],
    [['--serve-mcp', 's3cret\n'], 2, /needs a key: .* of ASCII, no spaces/],
    [['--serve-mcp', 'my', 's3cret', 'key'], 2, /answers no prompt/],
    [['--serve-mcp', 'short'], 2, /needs a key: at least 6 characters/],
    [['--serve-mcp', KEY, '--schema', 'a.json'], 2, /unknown flag --schema/],
    [['-c', '--serve-mcp', KEY], 2, /unknown flag (--continue|-c)/],
    [['--serve-mcp', KEY, '-P', 'nobody'], 2, /no profile nobody/],
    [['--serve-mcp', KEY, '--permission-mode', 'any'], 2, /permission_mode is "any"/],
    [['--serve-mcp', KEY, '--tools', 'no_such'], 2, /no tool named no_such/],
    [['--serve-mcp', KEY, '--root', '/nowhere'], 2, /\/nowhere/],
    [['--serve-mcp', KEY, '--mcp-prot', '1'], 2, /unknown flag --mcp-prot/],
  ]
  for (const [args, code, words, env = {}] of rows) {
    const ran = await tai(args, { env, timeout: 20_000 })
    complains(t, ran, code, words, args.join(' '))
    t.notMatch(ran.out + ran.err, /s3cret|k3y-/, 'the key is in none of them')
  }
})

t.test('the key may come from the environment, and the port from settings', async (t) => {
  const child = await start(['--serve-mcp', '--json'], {
    env: { TAI_MCP_KEY: KEY, TAI_MCP_PORT: '0' },
  })
  t.teardown(() => child.kill('SIGTERM'))
  const [piece] = await once(child.stdout, 'data')
  const { url, tools, mode } = JSON.parse(String(piece))
  t.strictSame([tools, mode], [TOOLS.length + 2, 'danger-full-access'])
  const environ = readFileSync(`/proc/${child.pid}/environ`, 'latin1')
  t.notMatch(environ, KEY, 'it is hidden from other processes')
  const reply = await send({ port: Number(new URL(url).port), key: KEY }, { body: ping })
  t.match(reply, { status: 200 })
  const done = ended(child)
  child.kill('SIGTERM')
  t.equal((await done).code, 143)
})

t.test('behind a proxy it answers to the names it was given', async (t) => {
  const behind = await serve(t, { args: ['--mcp-hosts', 'tai.example, Other.example,fd00::1'] })
  const own = [
    'tai.example',
    'TAI.example:443',
    'other.example',
    '[fd00::1]:80',
    `127.0.0.1:${behind.port}`,
  ]
  for (const host of own)
    t.equal((await send(behind, { headers: { host }, body: ping })).status, 200, host)
  for (const host of ['evil.example', 'x.tai.example', 'tai.example.evil.example'])
    t.equal((await send(behind, { headers: { host }, body: ping })).status, 403, host)
  const origin = (from: string) => ({ host: 'tai.example', origin: from })
  t.equal((await send(behind, { headers: origin('https://tai.example'), body: ping })).status, 200)
  t.equal((await send(behind, { headers: origin('https://evil.example'), body: ping })).status, 403)
  t.notMatch(behind.said.err, /pose as its own/)

  const open = await serve(t, { args: ['--mcp-bind', '0.0.0.0'] })
  await open.tells(/a web page could pose as its own: name its hosts with --mcp-hosts/)
  t.equal((await send(open, { headers: { host: 'any.example' }, body: ping })).status, 200)
  t.equal((await send(open, { headers: origin('https://tai.example'), body: ping })).status, 200)
  t.equal((await send(open, { headers: origin('https://evil.example'), body: ping })).status, 403)

  const named = await serve(t, { args: ['--mcp-bind', '0.0.0.0', '--mcp-hosts', 'tai.example'] })
  t.notMatch(named.said.err, /pose as its own/)
  t.equal((await send(named, { headers: { host: 'tai.example' }, body: ping })).status, 200)
  t.equal((await send(named, { headers: { host: 'localhost' }, body: ping })).status, 200)
  t.equal((await send(named, { headers: { host: 'evil.example' }, body: ping })).status, 403)
})

const hasIPv6 = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
)

t.test('on an address of IPv6 it answers to that', { skip: !hasIPv6 }, async (t) => {
  const six = await serve(t, { args: ['--mcp-bind', '::1'] })
  t.equal(six.url, `http://[::1]:${six.port}/mcp`)
  const there = await fetch(six.url, {
    method: 'OPTIONS',
    headers: { authorization: `Bearer ${KEY}` },
  })
  t.equal(there.status, 405, 'its own address is a name of it')
})

t.test('a server without descriptors for more connections goes on with those it has', async (t) => {
  const home = folder()
  const script = join(home, 'few.sh')
  writeFileSync(script, 'ulimit -Hn 60; ulimit -Sn 60; exec "$@"\n')
  const server = await serve(t, { home, through: ['/bin/sh', script] })
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  t.equal((await send(server, { body: ping, agent })).status, 200)
  const many = await Promise.all(Array.from({ length: 100 }, () => connect(server)))
  t.equal((await send(server, { body: ping, agent })).status, 200)
  for (const { socket } of many) socket.destroy()
  t.equal((await send(server, { body: ping })).status, 200)
  agent.destroy()
})

t.test('a run that was told to end while it began serves nobody', async (t) => {
  const { app, stop, out, err } = openApp(t, { args: ['--serve-mcp', KEY, '--mcp-port', '0'] })
  stop.abort(new Error('enough'))
  await mcpServeMain(app)
  const port = Number(/:(\d+)\/mcp/.exec(out.text)?.[1])
  await t.rejects(send({ port, key: KEY }, { body: ping }), { code: 'ECONNREFUSED' })
  t.notMatch(out.text + err.text, KEY)
})

t.test('a server of somebody else answers by the same handler, and by its own hosts', async (t) => {
  const { app } = openApp(t, { args: ['--serve-mcp', KEY] })
  const context = await McpServeContext.open(app, { key: KEY, usual: 'danger-full-access' })
  t.teardown(() => context.close())
  const server = http.createServer(
    mcpServeHandler(new Door({ context, hosts: new Set(['own.test']) })),
  )
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const at = { port, key: KEY }
  t.equal((await send(at, { body: ping })).status, 403, 'loopback is none of its hosts')
  t.equal((await send(at, { body: ping, headers: { host: 'own.test' } })).status, 200)
})
