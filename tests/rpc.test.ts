import t from 'tap'
import {
  LinkError,
  MCP_DEPTH_MAX,
  MCP_PROTOCOL_VERSION,
  MCP_VERSIONS,
  readRpc,
  RPC_CODES,
  RpcError,
  rpcFailure,
  rpcResult,
  type RpcId,
  type JsonObject,
  type RpcMessage,
  type RpcTransport,
} from '../tai.ts'
import { scripted } from './fakes/scripted.ts'

/** A message as it came in, with what is not said left out. */
const ask = (more: object): string => JSON.stringify({ jsonrpc: '2.0', ...more })

/** What a text is refused with. */
function refusal(text: string): RpcError {
  try {
    readRpc(text)
  } catch (error) {
    if (error instanceof RpcError) return error
    throw error
  }
  throw new Error(`it was read: ${text.slice(0, 80)}`)
}

t.test('requests, notifications and responses are told apart', async (t) => {
  const cases: [string, RpcMessage][] = [
    [ask({ id: 1, method: 'ping' }), { id: 1, method: 'ping', params: {} }],
    [
      ask({ id: '1', method: 'ping', params: { a: [1] } }),
      { id: '1', method: 'ping', params: { a: [1] } },
    ],
    [ask({ method: 'x', params: {} }), { id: undefined, method: 'x', params: {} }],
    [ask({ id: 1, result: {} }), undefined],
    [ask({ id: 1, error: { code: 1, message: '' } }), undefined],
    [ask({ result: null }), undefined],
  ]
  for (const [text, message] of cases) t.strictSame(readRpc(text), message, text)
})

t.test('an id is echoed as it was, or refused', async (t) => {
  const good: RpcId[] = [0, -1, 1.5, 2 ** 53 - 1, '', 'x', '__proto__', '\u0000é😀', '"\\']
  for (const id of good) {
    const message = readRpc(ask({ id, method: 'ping' }))
    t.equal(message?.id, id)
    t.equal(JSON.parse(rpcResult(id, '{}')).id, id)
  }
  for (const id of ['null', '1e999', '9007199254740992', '-1e17', '{}', '[]', 'true', '{"a":1}']) {
    const error = refusal(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`)
    t.match(error, { code: -32600, id: null, message: /id is neither/ }, id)
  }
})

t.test('what is no message is refused with its code and, where there is one, its id', async (t) => {
  const cases: [text: string, code: number, id: RpcId | null][] = [
    ['', -32700, null],
    ['{', -32700, null],
    ['\ufeff{}', -32700, null],
    ["{'jsonrpc':'2.0'}", -32700, null],
    ['{"jsonrpc":"2.0","id":1,"method":"ping"}x', -32700, null],
    ['[]', -32600, null],
    ['[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, null],
    ['null', -32600, null],
    ['"ping"', -32600, null],
    ['7', -32600, null],
    ['{}', -32600, null],
    ['{"id":1,"method":"ping"}', -32600, null],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, null],
    ['{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600, null],
    [ask({ id: 1 }), -32600, 1],
    [ask({ id: 1, method: 7 }), -32600, 1],
    [ask({ id: 1, method: null }), -32600, 1],
    [ask({ id: 'a', method: 'ping', params: [] }), -32602, 'a'],
    [ask({ id: 1, method: 'ping', params: 'x' }), -32602, 1],
    [ask({ method: 'x', params: null }), -32602, null],
  ]
  for (const [text, code, id] of cases) t.match(refusal(text), { code, id }, text)
})

t.test('of keys that come twice the last counts, as for every reader of JSON', async (t) => {
  const text = '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}'
  t.match(readRpc(text), { id: 2, method: 'tools/list' })
})

t.test('names that every object has mean nothing', async (t) => {
  const text = '{"jsonrpc":"2.0","id":1,"method":"constructor","params":{"__proto__":{"a":1}}}'
  const message = readRpc(text)
  t.match(message, { method: 'constructor' })
  t.equal(({} as { a?: number }).a, undefined)
  t.match(refusal('{"__proto__":{"jsonrpc":"2.0","method":"x"}}'), { code: -32600 })
})

t.test('a failure says its code, its words and its data', async (t) => {
  const error = new RpcError('denied', 'no', { data: { reason: 'deny_grant' } })
  t.equal(
    rpcFailure(1, error),
    '{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":{"reason":"deny_grant"}}}',
  )
  t.equal(
    rpcFailure(null, new RpcError('internal', 'x')),
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"x"}}',
  )
  const codes = '32700 32600 32601 32602 32603 32000 32001 32001 32002 32003 32020 32021 32022'
  t.strictSame(
    Object.values(RPC_CODES),
    codes.split(' ').map((code) => -Number(code)),
  )
  const bell = refusal('{"a": \u0007 \u001b[31m')
  t.notMatch(bell.message, /\p{Cc}/u, 'what is quoted is made visible')
})

t.test('the versions that are agreed to are those of the legacy era', async (t) => {
  t.equal(MCP_PROTOCOL_VERSION, '2025-11-25')
  t.strictSame(MCP_VERSIONS, ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])
})

// --- our end of a connection to a server ---

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => t.fail('it did not fail'),
    (error: unknown) => error,
  )
const never = new Promise<JsonObject>(() => {})

t.test('replies find their requests in any order; what nobody waits for is dropped', async (t) => {
  const transport = scripted({ a: () => never, b: () => never })
  const heard: string[] = []
  const peer: RpcTransport = transport
  peer.hear = (method) => void heard.push(method)
  const [a, b] = ['a', 'b'].map((method) => peer.request(method, {}, { wait: 5_000 }))
  transport.say({ id: 99, result: {} })
  transport.receive(undefined) // no JSON
  transport.receive([{ id: 2, result: { n: 2 } }, { method: 'news' }])
  transport.say({ id: 1, result: { n: 1 } })
  transport.say({ id: 1, result: { n: 'again' } })
  t.strictSame(await Promise.all([a, b]), [{ n: 1 }, { n: 2 }])
  t.strictSame(heard, ['news'])
})

t.test(
  'an error of the server keeps its code and data; a reply that is none is named',
  async (t) => {
    const transport = scripted({ a: () => never })
    const peer = transport
    const ask = () => failure(peer.request('a', {}, { wait: 5_000 }))
    const first = ask()
    transport.say({ id: 1, error: { code: -32042, message: 'no', data: { why: 1 } } })
    t.match(await first, { code: -32042, message: 'no', data: { why: 1 } })
    const second = ask()
    transport.say({ id: 2 })
    t.match(await second, { kind: 'protocol' })
    const third = ask()
    transport.say({ id: 3, error: { code: 'x', message: 7 } })
    t.match(await third, { code: -32603, message: '7' })
  },
)

t.test('a request without an answer is cancelled, and its late answer dropped', async (t) => {
  const transport = scripted({ slow: () => never })
  const peer = transport
  t.match(await failure(peer.request('slow', {}, { wait: 20 })), {
    kind: 'timeout',
    message: /no answer to slow in/,
  })
  t.match(transport.sent.at(-1), {
    method: 'notifications/cancelled',
    params: { requestId: 1, reason: /no answer/ },
  })
  transport.say({ id: 1, result: {} })
  const stop = new AbortController()
  const asked = failure(peer.request('slow', {}, { wait: 5_000, signal: stop.signal }))
  stop.abort(new Error('enough'))
  t.match(await asked, { message: 'enough' })
  t.match(transport.sent.at(-1), { params: { requestId: 2, reason: 'enough' } })
  await failure(peer.request('initialize', {}, { wait: 20 }))
  t.equal(transport.sent.at(-1)?.method, 'initialize', 'which is never cancelled')
})

t.test(
  'complaint 31: signs of progress keep a call alive, for others they mean nothing',
  async (t) => {
    const transport = scripted({ 'tools/call': () => never })
    const peer = transport
    const slow = peer.request('tools/call', {}, { wait: 150 })
    const other = failure(peer.request('tools/call', {}, { wait: 150 }))
    const meta = Object(transport.sent[0]?.params)['_meta']
    const token = Object(meta)['progressToken']
    t.equal(token, 1, 'the server is told by which name to tell its progress')
    const beat = setInterval(
      () => transport.say({ method: 'notifications/progress', params: { progressToken: token } }),
      40,
    )
    t.match(await other, { kind: 'timeout' })
    transport.say({ id: 1, result: { done: true } })
    t.strictSame(await slow, { done: true })
    clearInterval(beat)
  },
)

t.test('what is nested where a word should stand ends its call, and nothing else', async (t) => {
  const transport = scripted({ a: () => never })
  const peer = transport
  const deep: unknown = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`)
  const asked = failure(peer.request('a', {}, { wait: 5_000 }))
  transport.receive({ id: deep, result: {} })
  transport.receive({ method: 'notifications/progress', params: { progressToken: deep } })
  transport.receive({ id: 1, error: { code: deep, message: deep } })
  t.match(await asked, { code: -32603 })
})

t.test('a server may ask whether we are there, and nothing else', async (t) => {
  const transport = scripted({})
  transport.say({ id: 'p', method: 'ping' })
  transport.say({ id: 7, method: 'roots/list' })
  transport.say({ id: {}, method: 'sampling/createMessage' })
  t.match(transport.sent, [
    { id: 'p', result: {} },
    { id: 7, error: { code: -32601, message: /roots\/list/ } },
  ])
  t.equal(transport.sent.length, 2)
})

t.test('a server that asks and reads no answers is left', async (t) => {
  let gone = 0
  const deaf = Object.assign(scripted({}), { send: () => never, gone: () => (gone += 1) })
  for (let id = 0; id < 1_000; id++) deaf.say({ id, method: 'ping' })
  t.equal(gone, 1)
  t.match(await failure(deaf.request('a', {}, { wait: 5_000 })), { message: /without reading/ })
})

t.test(
  'when the connection is over, everything that waits is told so, and what comes after',
  async (t) => {
    const transport = scripted({ a: () => never })
    const peer = transport
    const asked = failure(peer.request('a', {}, { wait: 5_000 }))
    transport.lost(new LinkError('lost', 'the server exited with code 3'))
    t.match(await asked, { kind: 'lost', message: /code 3/ })
    t.match(await failure(peer.request('a', {}, { wait: 5_000 })), { kind: 'lost' })
    t.equal(transport.sent.length, 1)
    const broken: RpcTransport = Object.assign(scripted({}), {
      send: () => Promise.reject(new LinkError('lost', 'no')),
    })
    t.match(await failure(broken.request('a', {}, { wait: 5_000 })), {
      kind: 'lost',
    })
  },
)

t.test('a message is refused unread however deep it is', async (t) => {
  for (const depth of [1_000, 200_000, 2_000_000]) {
    const nested = `${'['.repeat(depth)}${']'.repeat(depth)}`
    const text = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${nested}}}`
    t.match(refusal(text), { code: -32600, message: `nested deeper than ${MCP_DEPTH_MAX} levels` })
  }
})
