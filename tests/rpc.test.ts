import t from 'tap'
import {
  MCP_DEPTH_MAX,
  MCP_PROTOCOL_VERSION,
  MCP_VERSIONS,
  nestsDeeper,
  readRpc,
  RPC_CODES,
  RpcError,
  rpcFailure,
  rpcResult,
  type RpcId,
  type RpcMessage,
} from '../tai.ts'

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
    [ask({ id: 1, method: 'ping' }), { kind: 'request', id: 1, method: 'ping', params: {} }],
    [
      ask({ id: '1', method: 'ping', params: { a: [1] } }),
      { kind: 'request', id: '1', method: 'ping', params: { a: [1] } },
    ],
    [ask({ method: 'x', params: {} }), { kind: 'notification', method: 'x', params: {} }],
    [ask({ id: 1, result: {} }), { kind: 'response' }],
    [ask({ id: 1, error: { code: 1, message: '' } }), { kind: 'response' }],
    [ask({ result: null }), { kind: 'response' }],
  ]
  for (const [text, message] of cases) t.strictSame(readRpc(text), message, text)
})

t.test('an id is echoed as it was, or refused', async (t) => {
  const good: RpcId[] = [0, -1, 1.5, 2 ** 53 - 1, '', 'x', '__proto__', '\u0000é😀', '"\\']
  for (const id of good) {
    const message = readRpc(ask({ id, method: 'ping' }))
    t.match(message, { kind: 'request' })
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

t.test('nesting is measured without parsing, and outside of texts only', async (t) => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  t.equal(nestsDeeper(nested(128), 128), false)
  t.equal(nestsDeeper(nested(129), 128), true)
  t.equal(nestsDeeper('{"a":'.repeat(129), 128), true, 'it need not end')
  t.equal(nestsDeeper(JSON.stringify('['.repeat(1_000)), 128), false)
  t.equal(nestsDeeper(JSON.stringify(`\\"${'{'.repeat(1_000)}`), 128), false)
  t.equal(nestsDeeper(`${'[],'.repeat(1_000)}`, 128), false, 'width is no depth')
  for (const depth of [1_000, 200_000, 2_000_000]) {
    const text = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${nested(depth)}}}`
    t.match(refusal(text), { code: -32600, message: `nested deeper than ${MCP_DEPTH_MAX} levels` })
  }
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
  t.strictSame(
    Object.values(RPC_CODES),
    [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32001, -32002],
  )
  const bell = refusal('{"a": \u0007 \u001b[31m')
  t.notMatch(bell.message, /\p{Cc}/u, 'what is quoted is made visible')
})

t.test('the versions that are agreed to are those of the legacy era', async (t) => {
  t.equal(MCP_PROTOCOL_VERSION, '2025-11-25')
  t.strictSame(MCP_VERSIONS, ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])
})
