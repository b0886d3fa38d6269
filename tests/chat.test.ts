import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import * as net from 'node:net'
import t, { type Test } from 'tap'
import {
  ChatClient,
  HttpClient,
  ModelError,
  PROVIDERS,
  type ChatEvent,
  type ChatReply,
  type ChatRequest,
  type Message,
  type ModelChoice,
} from '../tai.ts'
import { startFakeChat } from './data/fake-chat.mjs'
import { startModel, type ModelTurn } from './fakes/model.ts'

const KEY = 'sk-test-0123456789'
const http = new HttpClient({})
t.teardown(() => http.close())

type Wire = 'openai' | 'anthropic'
type Outcome = {
  text: string // that was streamed
  reasoning: string
  notices: string[]
  reply?: ChatReply
  error?: ModelError
}

/** A client for the server at `url`, which is without `/v1`. */
function client(wire: Wire, url: string, more: { idle?: number; provider?: object } = {}) {
  const row = PROVIDERS.find((each) => each.name === wire)!
  const provider = { ...row, baseUrl: `${url}/v1`, ...more.provider }
  const choice: ModelChoice = { provider, model: 'm', key: KEY, window: 1000, why: '' }
  return new ChatClient(choice, { http, idle: more.idle ?? 5_000, random: () => 0 })
}

const ask = (text: string): ChatRequest => ({
  messages: [{ role: 'user', parts: [{ kind: 'text', text }] }],
  tools: [],
})

async function run(
  chat: ChatClient,
  request: ChatRequest = ask('hi'),
  signal?: AbortSignal,
): Promise<Outcome> {
  const got: Outcome = { text: '', reasoning: '', notices: [] }
  const take = (event: ChatEvent) => {
    if (event.kind === 'notice') got.notices.push(event.text)
    else got[event.kind] += event.text
  }
  const events = chat.stream(request, signal ?? new AbortController().signal)
  try {
    for (;;) {
      const step = await events.next()
      if (step.done) return { ...got, reply: step.value }
      take(step.value)
    }
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return { ...got, error }
  }
}

const callsOf = ({ reply, error }: Outcome) =>
  (reply?.message ?? error?.partial)?.calls.map(({ id, name, args, problem }) =>
    problem === undefined ? [id, name, args] : [id, name, 'problem'],
  )

// Family e of the cases.

type Case = {
  id: string
  input: {
    body?: string
    body_base64?: string
    status?: number
    variants?: Record<string, string>
    rows?: { arguments: unknown }[]
  }
}
const cases = new Map(
  readFileSync(new URL('./data/cases.jsonl', import.meta.url), 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Case)
    .map((each) => [each.id, each.input]),
)
const input = (id: string) => cases.get(id)!
const bodyOf = (id: string, variant?: string): Buffer => {
  const { body, body_base64, variants } = input(id)
  if (body_base64 !== undefined) return Buffer.from(body_base64, 'base64')
  return Buffer.from((variant === undefined ? body : variants?.[variant]) ?? '')
}

/** Plays a body at once and byte by byte; `look` is told which. */
async function play(turn: ModelTurn, look: (got: Outcome, requests: number, how: string) => void) {
  for (const bytewise of [false, true]) {
    const model = await startModel(() => ({ ...turn, bytewise }))
    const got = await run(client('openai', model.url))
    await model.close()
    look(got, model.requests.length, bytewise ? 'byte by byte' : 'at once')
  }
}

t.test('e01: calls without an index, and a name that comes late', async (t) => {
  await play({ body: bodyOf('e01') }, (got, _n, how) =>
    t.strictSame(
      callsOf(got),
      [
        ['call_a', 'get_weather', { city: 'Oslo' }],
        ['call_b', 'read_file', { path: 'a.txt' }],
        ['call_c', 'now', {}],
      ],
      how,
    ),
  )
})

t.test('e03: pieces cut in the worst places', async (t) => {
  await play({ body: bodyOf('e03') }, (got, _n, how) => {
    t.equal(got.text, '台北 🚀 naïve', how)
    t.strictSame(callsOf(got), [['a', 'read_file', { path: '\u00e9\u{1f680}/"q"\n' }]], how)
  })
})

t.test("e05: failure inside HTTP 200 is a failure, with the provider's words", async (t) => {
  const rows: [string, RegExp][] = [
    ['first', /33\/32/],
    ['after_text', /upstream died/],
    ['string', /STREAM_EXPLODED/],
    ['event_error', /Overloaded/],
    ['json_body', /model not loaded/],
    ['comments_only', /empty response/],
    ['done_only', /empty response/],
    ['bad_json', /malformed stream/],
    ['html', /malformed stream: gateway/],
  ]
  t.strictSame(
    Object.keys(input('e05').variants ?? {}),
    rows.map(([name]) => name),
  )
  const all = rows.map(async ([name, message]) => {
    const headers = { 'content-type': 'text/event-stream' }
    await play({ body: bodyOf('e05', name), headers }, (got, requests, how) => {
      t.match(got.error, { message, exitCode: 3 }, `${name}, ${how}`)
      t.equal(got.text, name === 'after_text' ? 'The answer ' : '')
      if (name === 'after_text')
        t.match(got.error?.partial, { text: 'The answer ', state: 'failed' })
      t.equal(requests, name === 'first' || name === 'event_error' ? 4 : 1, `${name}: tries`)
    })
  })
  await Promise.all(all)
})

t.test('e07: why a reply stopped decides what runs', async (t) => {
  const rows: [string, object][] = [
    [
      'length_open',
      { stop: 'length', calls: [['a', 'write_file', 'problem']], notice: /output limit/ },
    ],
    [
      'length_two',
      {
        stop: 'length',
        calls: [
          ['a', 'now', {}],
          ['b', 'read_file', 'problem'],
        ],
        notice: /output limit/,
      },
    ],
    [
      'length_text',
      { stop: 'length', calls: [], text: 'cut here', state: 'cut', notice: /output limit/ },
    ],
    ['filter', { stop: 'filter', calls: [], text: 'I ', state: 'cut', notice: /content filter/ }],
    ['stop_with_calls', { stop: 'calls', calls: [['a', 'now', {}]], state: 'complete' }],
    ['calls_without_calls', { stop: 'end', calls: [], text: 'nothing to do', state: 'complete' }],
  ]
  t.strictSame(
    Object.keys(input('e07').variants ?? {}),
    rows.map(([name]) => name),
  )
  for (const [name, wanted] of rows)
    await play({ body: bodyOf('e07', name) }, (got, _n, how) => {
      const { message, stop } = got.reply ?? {}
      const seen = {
        stop,
        calls: callsOf(got),
        text: got.text,
        state: message?.state,
        notice: got.notices[0],
      }
      t.match(seen, wanted, `${name}, ${how}`)
      for (const call of message?.calls ?? [])
        if (call.problem) t.match(call.problem, /cut off by the output limit/)
    })
})

const wantedArgs = (given: unknown) => (typeof given === 'object' && given !== null ? given : {})

t.test('e09: arguments that are nothing, null or an object', async (t) => {
  for (const { arguments: given } of input('e09').rows ?? []) {
    const made = given === '<missing>' ? {} : { arguments: given }
    const call = { id: 'a', type: 'function', function: { name: 'get_weather', ...made } }
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    const whole = { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }
    const chunk = {
      choices: [
        {
          index: 0,
          delta: { ...message, tool_calls: [{ index: 0, ...call }] },
          finish_reason: 'tool_calls',
        },
      ],
    }
    for (const body of [
      JSON.stringify(whole),
      `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`,
    ])
      await play({ body }, (got, _n, how) =>
        t.strictSame(
          callsOf(got),
          [['a', 'get_weather', wantedArgs(given)]],
          `${JSON.stringify(given)}, ${how}`,
        ),
      )
  }
})

t.test('e11: ids are there and are different, in this turn and the next', async (t) => {
  const rows: [string, number][] = [
    ['same_id', 2],
    ['no_id', 2],
    ['one_fails', 3],
  ]
  for (const [name, count] of rows) {
    const model = await startModel([
      { body: bodyOf('e11', name) },
      { body: bodyOf('e11', name) },
      { text: 'done' },
    ])
    const chat = client('openai', model.url)
    const messages: Message[] = [...ask('go').messages]
    for (let turn = 0; turn < 3; turn++) {
      const { reply } = await run(chat, { messages, tools: [] })
      const { message } = reply!
      messages.push(message)
      for (const call of message.calls)
        messages.push({
          role: 'tool',
          id: call.id,
          name: call.name,
          text: call.name,
          isError: false,
        })
    }
    await model.close()
    const sent: {
      role: string
      content: string
      tool_call_id: string
      tool_calls?: { id: string; function: { name: string } }[]
    }[] = model.requests[2]?.body.messages
    const calls = sent.flatMap((each) => each.tool_calls ?? [])
    t.equal(calls.length, count * 2, name)
    t.equal(new Set(calls.map(({ id }) => id || '?')).size, count * 2, `${name}: all different`)
    const turn = ['assistant', ...calls.slice(0, count).map(() => 'tool')]
    t.strictSame(
      sent.map(({ role }) => role),
      ['user', ...turn, ...turn],
    )
    t.strictSame(
      sent.filter(({ role }) => role === 'tool').map((each) => [each.tool_call_id, each.content]),
      calls.map((call) => [call.id, call.function.name]),
      `${name}: each has its own answer`,
    )
  }
})

t.test('e13: a context that is too long is said once, not sent again', async (t) => {
  for (const [name, body] of Object.entries(input('e13').variants ?? {}))
    await play({ status: 400, body }, (got, requests, how) => {
      t.match(
        got.error,
        { kind: 'context', status: 400, hint: /no longer fits/ },
        `${name}, ${how}`,
      )
      t.match(got.error?.message, /\d{4,6}/, 'the numbers are shown')
      t.equal(requests, 1)
    })
})

// The faults of fake-chat.mjs.

const ANSWER = 'The answer is 42 — naïve café, 日本語, 🙂.'
const TOOLS = '[[tool:now {}]] [[tool:read_file {"path":"é"}]]'
const BOTH = [
  ['now', {}],
  ['read_file', { path: 'é' }],
]

type Fault = {
  fault: string
  only?: Wire
  text?: string // wanted of a question
  calls?: unknown // wanted of a request for tools
  reasoning?: string
  usage?: null
  error?: object
  notices?: number
  requests?: number
}
const works = (fault: string, more: Partial<Fault> = {}): Fault => ({
  fault,
  text: ANSWER,
  calls: BOTH,
  ...more,
})
const fails = (fault: string, error: object, more: Partial<Fault> = {}): Fault => ({
  fault,
  error,
  ...more,
})
const retried = { notices: 3, requests: 4 }

const FAULTS: readonly Fault[] = [
  ...[
    '',
    'crlf',
    'cr',
    'byte',
    'split-utf8',
    'no-space',
    'comments',
    'event-lines',
    'no-done',
    'gzip',
  ].map((fault) => works(fault)),
  ...['plain-json', 'bom', 'no-index', 'zero-index', 'no-id', 'args-object', 'finish-stop'].map(
    (fault) => works(fault),
  ),
  ...['null-content', 'usage-empty-choices', 'strict', 'crlf,byte,comments', 'no-index,no-id'].map(
    (fault) => works(fault),
  ),
  works('slow-first', { calls: undefined }),
  works('empty-args', {
    calls: [
      ['now', {}],
      ['read_file', {}],
    ],
  }),
  works('bad-args', {
    calls: [
      ['now', 'problem'],
      ['read_file', 'problem'],
    ],
  }),
  works('no-usage', { only: 'openai', usage: null }),
  works('reasoning', { reasoning: 'Let me think.' }),
  works('think-tags', { only: 'openai', reasoning: '\nLet me think.\n' }),
  works('huge', { text: 'x'.repeat(1 << 20) }),
  works('ansi', {
    text: `\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x1b]52;c;cHduZWQ=\x07 ${ANSWER}`,
  }),
  works('429once', { notices: 1, requests: 2 }),
  works('429date', { notices: 1, requests: 2 }),
  works('500once', { notices: 1, requests: 2 }),
  works('503once', { notices: 1, requests: 2 }),
  fails('empty-answer', { kind: 'empty', message: /empty response/ }),
  fails('500', { kind: 'busy', status: 500 }, retried),
  fails('529', { kind: 'busy', message: /Overloaded/ }, retried),
  fails('html', { kind: 'busy', message: /502: 502 Bad Gateway/ }, retried),
  fails('json200err', { kind: 'busy', message: /Provider returned error/ }, retried),
  fails('reset', { kind: 'unreachable', message: /closed before a reply/ }, retried),
  fails('401', { kind: 'refused', hint: /key/ }),
  fails('403', { kind: 'refused', message: /Forbidden/ }),
  fails('404model', { kind: 'refused', hint: /model list/ }),
  fails('ctx', { kind: 'context' }),
  fails('err-in-stream', { message: /overloaded/i, partial: { state: 'failed' } }),
  fails('drop', { message: /broke off/, partial: { state: 'failed' } }),
  fails('stall', { message: /fell silent for 2.2 s/, partial: { state: 'failed' } }),
]

const wires: readonly Wire[] = ['openai', 'anthropic']
t.test('every fault of the fake server has its outcome, in both dialects', async (t) => {
  const all = wires.flatMap((wire) =>
    FAULTS.filter(({ only = wire }) => only === wire).map((row) => checkFault(t, wire, row)),
  )
  await Promise.all(all)
})

async function checkFault(t: Test, wire: Wire, row: Fault) {
  const server = await startFakeChat({ fault: row.fault })
  const chat = client(wire, server.url, { idle: 2_200 })
  const got = await run(chat)
  const requests = server.requests().length
  const tools = row.calls === undefined ? undefined : await run(chat, ask(TOOLS))
  await server.close()
  const name = `${wire}, ${row.fault || 'no fault'}`
  t.equal(requests, row.requests ?? 1, `${name}: requests`)
  t.equal(got.notices.length, row.notices ?? 0, `${name}: each retry is announced`)
  if (row.error) {
    t.match(got.error, row.error, name)
    t.notMatch(`${got.error?.message} ${got.error?.hint} ${got.notices}`, KEY)
    return
  }
  t.equal(got.text, row.text, `${name}: ${got.error?.message}`)
  t.equal(got.reply?.message.text, row.text)
  t.equal(got.reasoning, row.reasoning ?? '', `${name}: reasoning`)
  if (row.fault !== 'no-usage')
    t.strictSame(got.reply?.usage, { input: 10, output: 12, cached: 0 }, `${name}: usage`)
  if (tools)
    t.strictSame(
      callsOf(tools)?.map(([, ...rest]) => rest),
      row.calls,
      `${name}: calls`,
    )
}

const call = (id: string) => ({ id, name: 'now', args: {} })

t.test('a strict server takes whatever the history and the tools hold', async (t) => {
  const image = { mime: 'image/png', base64: 'AAAA' }
  const history: Message[] = [
    { role: 'system', text: 'be brief' },
    {
      role: 'user',
      parts: [
        { kind: 'text', text: '' },
        { kind: 'image', ...image },
      ],
    },
    {
      role: 'assistant',
      text: ' ',
      calls: [call('a.b'), call('a.b'), call('')],
      state: 'complete',
    },
    { role: 'tool', id: 'a.b', name: 'now', text: '', isError: false, images: [image] },
    { role: 'assistant', text: '', calls: [], state: 'interrupted' },
    { role: 'tool', id: 'lost', name: 'now', text: 'x', isError: true },
    { role: 'assistant', text: 'half', calls: [call('a.b')], state: 'failed' },
    { role: 'user', parts: [] },
    ...ask('and now?').messages,
  ]
  const odd = {
    anyOf: [{ properties: { 'a b': {}, c: { $ref: '#/$defs/c' }, d: { type: 'array' } } }],
    $defs: { c: { type: 'object' } },
  }
  const tools = ['one', 'two'].map((name) => ({
    name,
    description: 'd'.repeat(3000),
    parameters: odd,
  }))
  for (const wire of wires) {
    const server = await startFakeChat({ fault: 'strict' })
    const got = await run(client(wire, server.url), { messages: history, tools })
    await server.close()
    t.equal(got.text, ANSWER, `${wire}: ${got.error?.message}`)
  }
})

t.test('a server that stays busy is asked four times, each after its Retry-After', async (t) => {
  const stop = new AbortController()
  const server = await startFakeChat({ fault: '429' })
  const events = client('openai', server.url).stream(ask('hi'), stop.signal)
  const first = await events.next()
  t.match(first.value, { kind: 'notice', text: /429.*; trying again in 1.0 s \(1 of 3\)/ })
  stop.abort(new Error('enough'))
  await t.rejects(events.next(), { message: 'enough' })
  await server.close()
  const headers = { 'content-type': 'application/json', 'retry-after': '0.001' }
  const model = await startModel(() => ({ status: 429, headers, body: '{"error":"busy"}' }))
  const got = await run(client('openai', model.url))
  await model.close()
  t.match(got.error, { kind: 'busy', status: 429, retryAfter: 1 })
  t.match(got.notices, [/in 1 ms \(1 of 3\)/, /in 1 ms \(2 of 3\)/, /in 1 ms \(3 of 3\)/])
  t.equal(model.requests.length, 4)
})

t.test('a Retry-After over the limit is not waited for', async (t) => {
  const headers = { 'content-type': 'application/json', 'retry-after': '3600' }
  const model = await startModel([{ status: 429, headers, body: '{"error":"busy"}' }])
  const got = await run(client('openai', model.url))
  await model.close()
  t.match(got.error, { message: /busy/, retryAfter: 3_600_000, kind: 'busy' })
  t.equal(model.requests.length, 1)
})

const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`

t.test('nothing is sent again once something of the reply has arrived', async (t) => {
  const overloaded = 'data: {"error":{"code":529,"message":"overloaded"}}\n\n'
  const pieces = {
    text: { content: 'so' },
    'a space': { content: ' ' },
    reasoning: { reasoning: 'hm' },
    call: { tool_calls: [{ id: 'a', function: { name: 'now' } }] },
  }
  for (const [name, delta] of Object.entries(pieces))
    for (const turn of [
      { body: chunk(delta) + overloaded },
      { body: chunk(delta), drop: true },
      { body: chunk(delta) },
    ]) {
      const model = await startModel([turn, { text: 'again' }])
      const got = await run(client('openai', model.url))
      await model.close()
      t.ok(got.error?.partial, name)
      t.equal(model.requests.length, 1, name)
    }
})

t.test('a connection that breaks after the model came to its end breaks nothing', async (t) => {
  const choices = [{ index: 0, delta: { content: 'all' }, finish_reason: 'stop' }]
  const body = `data: ${JSON.stringify({ choices })}\n\n`
  for (const turn of [
    { body, drop: true },
    { body, hold: true },
  ]) {
    const model = await startModel([turn])
    const got = await run(client('openai', model.url, { idle: 50 }))
    await model.close()
    t.match(got, { text: 'all', reply: { message: { state: 'complete' }, stop: 'end' } })
  }
})

t.test('an abort ends the socket and rejects with its reason', async (t) => {
  const reason = new Error('enough')
  const stages: [string, ModelTurn][] = [
    ['no reply yet', { hang: true }],
    [
      'in the middle',
      { body: 'data: {"choices":[{"index":0,"delta":{"content":"so"}}]}\n\n', hold: true },
    ],
    ['waiting to try again', { status: 503, headers: { 'retry-after': '30' }, body: '{}' }],
  ]
  for (const [name, turn] of stages) {
    const model = await startModel([turn])
    const stop = new AbortController()
    const events = client('openai', model.url).stream(ask('hi'), stop.signal)
    const first = events.next()
    await (turn.hang ? model.seen(1) : first)
    const end = turn.hang ? first : events.next()
    stop.abort(reason)
    await t.rejects(end, reason, name)
    await model.close()
  }
  const late = client('openai', 'http://127.0.0.1:1').stream(ask('hi'), AbortSignal.abort(reason))
  await t.rejects(late.next(), reason, 'aborted before it began')
})

t.test('a reader who leaves, and a server that does not hang up, hold nothing', async (t) => {
  const closed: Promise<unknown>[] = []
  const server = net.createServer((socket) => {
    closed.push(once(socket, 'close'))
    const said =
      'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    const end = closed.length === 1 ? '' : 'data: [DONE]\n\n'
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${said}${end}`)
    socket.on('error', () => {}).resume()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const chat = client('openai', `http://127.0.0.1:${(server.address() as net.AddressInfo).port}`)
  for await (const event of chat.stream(ask('hi'), new AbortController().signal)) {
    t.strictSame(event, { kind: 'text', text: 'hi' })
    break
  }
  await closed[0]
  t.equal((await run(chat)).text, 'hi', 'what follows [DONE] is not waited for')
  await closed[1]
  server.close()
})

t.test('connections are kept for the next request', async (t) => {
  const model = await startModel([{ text: 'one' }, { text: 'two' }])
  const ports: unknown[] = []
  for (const _ of [1, 2]) {
    await run(client('openai', model.url))
    ports.push(model.requests.at(-1)?.port)
  }
  await model.close()
  t.equal(ports[0], ports[1])
})

t.test('the key is in no error and no notice', async (t) => {
  const error = { message: `bad key ${KEY}` }
  const turns: ModelTurn[] = [
    { status: 401, body: JSON.stringify({ error }) },
    { status: 503, headers: { 'retry-after': '0' }, body: `oops ${KEY}` },
    { body: `data: ${JSON.stringify({ error })}\n\n` },
  ]
  const model = await startModel(turns)
  const chat = client('openai', model.url)
  const [refused, later] = [await run(chat), await run(chat)]
  await model.close()
  t.equal(refused.error?.message, 'openai answered 401: bad key [redacted:api-key]')
  t.match(later.notices, [/oops \[redacted:api-key\]/])
  t.match(later.error?.message, /bad key \[redacted:api-key\]/)
  t.equal(model.requests[0]?.headers.authorization, `Bearer ${KEY}`)
})

t.test('a cost is what the provider says, or unknown', async (t) => {
  const usage = { prompt_tokens: 1_000_000, completion_tokens: 0, cost: 0.25 }
  const said = { choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }], usage }
  const model = await startModel([{ body: JSON.stringify(said) }, { text: 'x' }])
  const chat = client('openai', model.url)
  t.equal((await run(chat)).reply?.cost, 0.25)
  t.equal((await run(chat)).reply?.cost, undefined)
  await model.close()
})

t.test('complete gives the whole reply', async (t) => {
  for (const wire of wires) {
    const model = await startModel([{ text: 'whole', whole: true, reasoning: 'hm' }])
    const chat = client(wire, model.url)
    const signal = new AbortController().signal
    const reply = await chat.complete(ask('hi'), signal)
    t.match(reply, {
      message: { text: 'whole', state: 'complete', reasoning: [{ text: 'hm' }] },
      stop: 'end',
    })
    await model.close()
  }
  const nobody = await run(client('openai', 'http://127.0.0.1:1'))
  t.match(nobody.error, {
    kind: 'unreachable',
    exitCode: 3,
    message: /^openai failed: cannot reach .*connection refused/,
  })
  t.equal(nobody.notices.length, 0, 'a server that is not there is not asked again')
})
