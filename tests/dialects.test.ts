import t from 'tap'
import {
  adaptSchema,
  DIALECTS,
  failureOf,
  PROVIDERS,
  repairHistory,
  StreamDecoder,
  type AssistantMessage,
  type ChatReply,
  type ChatRequest,
  type JsonObject,
  type Message,
  type ModelChoice,
  type Provider,
  type ToolMessage,
} from '../tai.ts'

const choiceOf = (name: string, more: Partial<Provider> = {}): ModelChoice => {
  const provider = { ...PROVIDERS.find((row) => row.name === name)!, ...more }
  return { provider, model: 'm', key: 'k', window: 1000, why: 'test' }
}
const encode = (name: string, request: Partial<ChatRequest>, more: Partial<Provider> = {}) => {
  const choice = choiceOf(name, more)
  const dialect = DIALECTS[choice.provider.dialect]
  // oxlint-disable-next-line typescript/no-explicit-any -- a request is looked into freely
  return JSON.parse(JSON.stringify(dialect.encode({ messages: [], tools: [], ...request }, choice)))
}

const user = (text: string): Message => ({ role: 'user', parts: [{ kind: 'text', text }] })
const says = (text: string, more: Partial<AssistantMessage> = {}): AssistantMessage => ({
  role: 'assistant',
  text,
  calls: [],
  state: 'complete',
  ...more,
})
const calls = (...ids: string[]): AssistantMessage =>
  says('', { calls: ids.map((id) => ({ id, name: 'now', args: { n: 1 } })) })
const result = (id: string, text = 'noon', more: Partial<ToolMessage> = {}): ToolMessage => ({
  role: 'tool',
  id,
  name: 'now',
  text,
  isError: false,
  ...more,
})
const PIXEL = { mime: 'image/png', base64: 'AAAA' }

/** A history as a list of words: `call:ID`, `reply:ID=TEXT`, `user`, `says`. */
const outline = (messages: readonly Message[]) =>
  messages.flatMap((message) => {
    if (message.role === 'tool') return [`reply:${message.id}=${message.text}`]
    if (message.role !== 'assistant') return [message.role]
    return message.calls.length > 0 ? message.calls.map(({ id }) => `call:${id}`) : ['says']
  })

t.test('a history is made valid before it is sent', async (t) => {
  const rows: [string, Message[], string[]][] = [
    ['whole', [calls('a'), result('a')], ['call:a', 'reply:a=noon']],
    [
      'a call without a reply is answered',
      [user('x'), calls('a', 'b'), result('b'), user('y')],
      ['user', 'call:a', 'call:b', 'reply:a=interrupted: no result', 'reply:b=noon', 'user'],
    ],
    ['a reply without a call is left out', [user('x'), result('z'), user('y')], ['user', 'user']],
    [
      'a second reply is left out',
      [calls('a'), result('a', 'one'), result('a', 'two')],
      ['call:a', 'reply:a=one'],
    ],
    [
      'replies move to their call',
      [calls('a', 'b'), result('b'), user('x'), result('a', 'late')],
      ['call:a', 'call:b', 'reply:a=late', 'reply:b=noon', 'user'],
    ],
    [
      'one id for two calls',
      [calls('a', 'a'), result('a', 'one'), result('a', 'two')],
      ['call:a', 'call:ca978112c', 'reply:a=one', 'reply:ca978112c=two'],
    ],
    [
      'an id that comes back in a later turn',
      [calls('a'), result('a', 'one'), calls('a'), result('a', 'two')],
      ['call:a', 'reply:a=one', 'call:ca978112c', 'reply:ca978112c=two'],
    ],
    ['an empty id', [calls(''), result('')], ['call:e3b0c4429', 'reply:e3b0c4429=noon']],
    ['an empty answer is left out', [user('x'), says(' '), user('y')], ['user', 'user']],
  ]
  for (const [name, history, wanted] of rows) {
    t.strictSame(outline(repairHistory(history)), wanted, name)
    const again = repairHistory(repairHistory(history))
    t.strictSame(outline(again), wanted, `${name}: repaired once is repaired`)
  }
})

t.test('a name that the model made up is sent as providers take it', async (t) => {
  const odd = says('', {
    calls: [
      { id: 'a', name: 'functions.now now', args: {} },
      { id: 'b', name: '', args: {} },
    ],
  })
  const names = repairHistory([odd, result('a')]).flatMap((message) => {
    if (message.role === 'tool') return [message.name]
    return message.role === 'assistant' ? message.calls.map(({ name }) => name) : []
  })
  t.strictSame(names, ['functions_now_now', 'unnamed', 'functions_now_now', 'unnamed'])
})

t.test('ids take the form a provider wants', async (t) => {
  const history = [calls('functions.now:0', 'functions_now_0'), result('functions.now:0')]
  t.equal(
    outline(repairHistory(history))[0],
    'call:functions.now:0',
    'as it is where all are taken',
  )
  const word = outline(repairHistory(history, /^[\w-]+$/))
  t.match(word[0], /^call:[0-9a-f]{9}$/)
  t.equal(word[1], 'call:functions_now_0')
  const nine = repairHistory(history, /^[A-Za-z0-9]{9}$/)
  const ids = nine.flatMap((m) => (m.role === 'tool' ? [m.id] : []))
  t.equal(new Set(ids).size, 2)
  for (const id of ids) t.match(id, /^[a-z0-9]{9}$/)
})

t.test('OpenAI: a request', async (t) => {
  const body = encode('openai', {
    messages: [
      { role: 'system', text: 'be brief' },
      { role: 'system', text: 'be kind' },
      {
        role: 'user',
        parts: [
          { kind: 'text', text: 'look' },
          { kind: 'image', ...PIXEL },
        ],
      },
      says('I ', { state: 'interrupted' }),
      { role: 'user', parts: [] },
      calls('a', 'b'),
      result('a', '', { images: [PIXEL] }),
      result('b', ''),
      user('go on'),
    ],
    tools: [{ name: 'now', description: 'd'.repeat(2000), parameters: { type: 'object' } }],
  })
  t.strictSame(
    body.messages.map((m: { role: string }) => m.role),
    ['system', 'user', 'assistant', 'user', 'assistant', 'tool', 'tool', 'user', 'user'],
  )
  const [system, look, cut, empty, asks, a, b, images] = body.messages
  t.equal(system.content, 'be brief\n\nbe kind')
  t.equal(look.content[1].image_url.url, 'data:image/png;base64,AAAA')
  t.equal(cut.content, 'I\n[interrupted]')
  t.equal(empty.content, '(an empty message)')
  t.equal(asks.content, null)
  t.equal(asks.tool_calls[0].function.arguments, '{"n":1}')
  t.equal(a.content, '(no text)')
  t.equal(b.content, '(no text)')
  t.equal(images.content[0].text, '(images from the tools)', 'images follow the last reply')
  t.equal(images.content[1].type, 'image_url')
  t.strictSame(body.stream_options, { include_usage: true })
  t.ok(body.tools[0].function.description.length <= 1024)
  t.strictSame(body.tools[0].function.parameters, { type: 'object', properties: {} })
})

t.test('what a provider wants otherwise is in its row', async (t) => {
  const thought: Message[] = [
    user('x'),
    {
      ...calls('call_1'),
      reasoning: [{ text: 'hm', details: [{ type: 'reasoning.text', text: 'hm' }] }],
      calls: [{ id: 'call_1', name: 'now', args: {}, extra: { extra_content: { s: 1 } } }],
    },
    result('call_1'),
  ]
  const sent = (name: string) => encode(name, { messages: thought }).messages[1]
  t.equal(sent('deepseek').reasoning_content, 'hm')
  t.strictSame(sent('openrouter').reasoning_details, [{ type: 'reasoning.text', text: 'hm' }])
  t.strictSame(sent('gemini').tool_calls[0].extra_content, { s: 1 })
  const plain = sent('openai')
  t.strictSame(Object.keys(plain), ['role', 'content', 'tool_calls'], 'others get none of it')
  t.notOk('extra_content' in plain.tool_calls[0])
  t.match(sent('mistral').tool_calls[0].id, /^[a-z0-9]{9}$/)
  t.notOk('stream_options' in encode('mistral', {}))
  const tools = [{ name: 'now', description: 'd', parameters: { type: 'object', properties: {} } }]
  t.notOk('parameters' in encode('gemini', { tools }).tools[0].function)
})

t.test('Anthropic: a request', async (t) => {
  const body = encode('anthropic', {
    messages: [
      { role: 'system', text: 'be brief' },
      user('one'),
      {
        ...calls('a.1', 'b'),
        reasoning: [
          { text: 'hm', signature: 's' },
          { text: '', sealed: 'x' },
          { text: 'unsigned' },
        ],
      },
      result('a.1', '', { images: [PIXEL] }),
      result('b', 'broken', { isError: true }),
      user('two'),
      says('so'),
      user('three'),
    ],
    tools: [
      { name: 'a', description: '', parameters: { type: 'object' } },
      { name: 'b', description: '', parameters: {} },
    ],
  })
  t.strictSame(
    body.messages.map((m: { role: string }) => m.role),
    ['user', 'assistant', 'user', 'assistant', 'user'],
  )
  const types = (n: number) => body.messages[n].content.map((b: { type: string }) => b.type)
  t.strictSame(types(1), ['thinking', 'redacted_thinking', 'tool_use', 'tool_use'])
  t.strictSame(types(2), ['tool_result', 'tool_result', 'text'], 'replies, then what the user said')
  const [first, second] = body.messages[2].content
  t.match(first.tool_use_id, /^[0-9a-f]{9}$/)
  t.strictSame(
    first.content.map((b: { type: string }) => b.type),
    ['text', 'image'],
  )
  t.equal(second.is_error, true)
  t.equal(body.max_tokens, 16_384)
  t.equal(body.system[0].text, 'be brief')
  const marks = JSON.stringify(body).match(/"cache_control"/g)
  t.equal(marks?.length, 4, 'system with the tools, and the last turns of the user')
  t.ok(body.system[0].cache_control && body.messages[4].content[0].cache_control)
})

const props = { type: 'object', properties: { a: { type: 'string' } } }
const SCHEMAS: [string, object, object][] = [
  ['as it is', props, props],
  ['nothing', {}, { type: 'object', properties: {} }],
  ['no properties', { type: 'object' }, { type: 'object', properties: {} }],
  [
    'a parameter named properties is no schema of properties',
    { type: 'object', properties: { properties: { type: 'array' } } },
    { type: 'object', properties: { properties: { type: 'array', items: {} } } },
  ],
  [
    'a reference is put in place',
    { ...props, properties: { b: { $ref: '#/$defs/x' } }, $defs: { x: { type: 'number' } } },
    { type: 'object', properties: { b: { type: 'number' } } },
  ],
  [
    'a reference to a neighbour',
    { type: 'object', properties: { a: { type: 'string' }, b: { $ref: '#/properties/a' } } },
    { type: 'object', properties: { a: { type: 'string' }, b: { type: 'string' } } },
  ],
  [
    'a reference to itself ends',
    { type: 'object', properties: { child: { $ref: '#' } } },
    {
      type: 'object',
      properties: { child: { type: 'object', properties: { child: {} } } },
    },
  ],
  [
    'alternatives on top are joined',
    {
      type: 'object',
      anyOf: [
        { properties: { a: { type: 'string' }, b: {} }, required: ['a', 'b'] },
        { properties: { b: {}, c: {} }, required: ['b'] },
      ],
    },
    { type: 'object', properties: { a: { type: 'string' }, b: {}, c: {} } },
  ],
  [
    'all of several are joined, with all they require',
    { allOf: [{ properties: { a: {} }, required: ['a'] }, { properties: { b: {} } }] },
    { type: 'object', properties: { a: {}, b: {} }, required: ['a'] },
  ],
  [
    'a name that no provider takes',
    { type: 'object', properties: { 'a b': {}, c: {} }, required: ['a b', 'c'] },
    { type: 'object', properties: { c: {} }, required: ['c'] },
  ],
  [
    'names of JavaScript itself are names',
    {
      properties: { a: { $ref: '#/constructor' }, b: { $ref: '#/%' } },
      required: ['toString', 'a'],
    },
    { type: 'object', properties: { a: {}, b: {} }, required: ['a'] },
  ],
  [
    'what else stands on top goes',
    { ...props, title: 't', default: {}, not: {}, additionalProperties: false },
    props,
  ],
  [
    'a list of anything',
    { properties: { a: { type: 'array', items: [{}] } } },
    { type: 'object', properties: { a: { type: 'array', items: {} } } },
  ],
  [
    'true and false are schemas in words',
    { properties: { a: true, b: false, c: null } },
    { type: 'object', properties: { a: {}, b: { not: {} }, c: {} } },
  ],
  [
    'what was true or false in an old draft',
    { properties: { n: { minimum: 0, exclusiveMinimum: true, required: true } } },
    { type: 'object', properties: { n: { minimum: 0 } } },
  ],
  [
    'a default is data',
    { properties: { a: { default: { $ref: 'x' } } } },
    { type: 'object', properties: { a: { default: { $ref: 'x' } } } },
  ],
]

t.test('complaint 26, and others: schemas become what providers take', async (t) => {
  for (const [name, given, wanted] of SCHEMAS) {
    const before = JSON.stringify(given)
    t.strictSame(adaptSchema(given as never), wanted, name)
    t.equal(JSON.stringify(given), before, `${name}: the stored one stays`)
  }
  const gemini = PROVIDERS.find((row) => row.name === 'gemini')!
  const strict = {
    type: 'object',
    properties: { a: { type: 'number', exclusiveMinimum: 0 } },
    additionalProperties: false,
  }
  t.strictSame(adaptSchema(strict, gemini.refuses), {
    type: 'object',
    properties: { a: { type: 'number' } },
  })
  const deep = JSON.parse('{"items":['.repeat(3000) + '1' + ']}'.repeat(3000))
  t.strictSame(Object.keys(adaptSchema(deep)), ['type', 'properties'], 'depth has an end')
  const odd = { properties: { a: { $ref: '#/constructor/caller' }, b: { $ref: '#/anyOf/0' } } }
  const first = { ...odd, anyOf: [{ type: 'string' }] }
  t.strictSame(adaptSchema(first as never)['properties'], { a: {}, b: { type: 'string' } })
  const wide = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`p${i}`, { $ref: '#' }]))
  t.ok(JSON.stringify(adaptSchema({ type: 'object', properties: wide })).length < 10_000)
})

const sse = (data: unknown) => (typeof data === 'string' ? data : JSON.stringify(data))
const openAi = (delta: object, finish_reason: string | null = null) =>
  sse({ choices: [{ index: 0, delta, finish_reason }] })

type Dialect = (typeof DIALECTS)[keyof typeof DIALECTS]
const decode = (dialect: Dialect, events: string[]): ChatReply => {
  const decoder = new StreamDecoder(dialect.read)
  for (const event of events) decoder.feed(event)
  return decoder.end().reply
}

t.test('<think> at the start is reasoning, wherever it is cut', async (t) => {
  const text = ' <think>a<b</think>\n\nsaid <think>x</think>'
  for (let cut = 0; cut < text.length; cut++) {
    const pieces = [text.slice(0, cut), text.slice(cut)].map((content) => openAi({ content }))
    const { message } = decode(DIALECTS.openai, [...pieces, openAi({}, 'stop')])
    t.equal(message.text, 'said <think>x</think>', `cut at ${cut}`)
    t.strictSame(message.reasoning, [{ text: 'a<b' }])
  }
  const plain = decode(DIALECTS.openai, [openAi({ content: '<th' }), openAi({}, 'stop')])
  t.equal(plain.message.text, '<th', 'what only began like it is text')
})

const details = (text: string) => ({
  reasoning_details: [{ type: 'reasoning.text', index: 0, text }],
})

t.test('reasoning is read in every spelling', async (t) => {
  const rows: [string, object[]][] = [
    ['reasoning_content', [{ reasoning_content: 'a' }, { reasoning_content: 'b' }]],
    ['reasoning', [{ reasoning: 'ab' }]],
    ['reasoning_details', [details('a'), details('b')]],
    [
      'both',
      [
        { ...details('a'), reasoning: 'a' },
        { ...details('b'), reasoning: 'b' },
      ],
    ],
  ]
  for (const [name, deltas] of rows) {
    const said = openAi({ content: [{ type: 'text', text: 'x' }] }, 'stop')
    const { message } = decode(DIALECTS.openai, [...deltas.map((delta) => openAi(delta)), said])
    t.equal(message.reasoning?.map(({ text }) => text).join(), 'ab', name)
    t.equal(message.text, 'x')
    const joined = message.reasoning?.[0]?.details
    if (joined) t.strictSame(joined, [{ type: 'reasoning.text', index: 0, text: 'ab' }])
  }
})

t.test('usage comes from wherever a server puts it', async (t) => {
  const said = openAi({ content: 'x' }, 'stop')
  const usage = { prompt_tokens: 9, completion_tokens: 3 }
  const cached = { ...usage, prompt_tokens_details: { cached_tokens: 4 }, cost: 0.5 }
  const rows: [string, object, number, number?][] = [
    ['in the last chunk', { choices: [{ index: 0, delta: {} }], usage }, 0],
    ['without choices', { choices: [], usage: cached }, 4, 0.5],
  ]
  for (const [name, chunk, hit, cost] of rows) {
    const reply = decode(DIALECTS.openai, [said, sse(chunk)])
    t.strictSame(reply.usage, { input: 9, output: 3, cached: hit }, name)
    t.equal(reply.cost, cost)
  }
  const anthropic = decode(DIALECTS.anthropic, [
    sse({
      type: 'message_start',
      message: {
        usage: {
          input_tokens: 5,
          cache_read_input_tokens: 3,
          cache_creation_input_tokens: 2,
          output_tokens: 1,
        },
      },
    }),
    sse({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'x' } }),
    sse({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 7 } }),
  ])
  t.strictSame(anthropic.usage, { input: 10, output: 7, cached: 3 })
})

t.test('Anthropic: blocks of every kind, and unknown events', async (t) => {
  const start = (index: number, content_block: object) =>
    sse({ type: 'content_block_start', index, content_block })
  const delta = (index: number, piece: object) =>
    sse({ type: 'content_block_delta', index, delta: piece })
  const reply = decode(DIALECTS.anthropic, [
    sse({ type: 'message_start', message: {} }),
    sse({ type: 'ping' }),
    start(0, { type: 'thinking', thinking: '', signature: '' }),
    delta(0, { type: 'thinking_delta', thinking: 'hm' }),
    delta(0, { type: 'signature_delta', signature: 'si' }),
    delta(0, { type: 'signature_delta', signature: 'gn' }),
    start(1, { type: 'redacted_thinking', data: 'opaque' }),
    start(2, { type: 'tool_use', id: 'a', name: 'now', input: {} }),
    delta(2, { type: 'input_json_delta', partial_json: '' }),
    start(3, { type: 'tool_use', id: 'b', name: 'read_file', input: {} }),
    delta(3, { type: 'input_json_delta', partial_json: '{"path":' }),
    delta(3, { type: 'input_json_delta', partial_json: '"a"}' }),
    start(4, { type: 'something_new' }),
    sse({ type: 'something_new' }),
    sse({ type: '__proto__' }),
    sse({ type: 'constructor' }),
    sse({ type: 'message_delta', delta: { stop_reason: 'tool_use' } }),
    sse({ type: 'message_stop' }),
  ])
  t.strictSame(reply.message, {
    role: 'assistant',
    text: '',
    reasoning: [
      { text: 'hm', signature: 'sign' },
      { text: '', sealed: 'opaque' },
    ],
    calls: [
      { id: 'a', name: 'now', args: {} },
      { id: 'b', name: 'read_file', args: { path: 'a' } },
    ],
    state: 'complete',
  })
  t.equal(reply.stop, 'calls')
})

t.test('Anthropic: stop reasons', async (t) => {
  const text = sse({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'text', text: 'x' },
  })
  const rows = {
    end_turn: 'end',
    stop_sequence: 'end',
    pause_turn: 'end',
    max_tokens: 'length',
    refusal: 'filter',
    new_one: 'end',
    constructor: 'end',
  }
  for (const [stop_reason, wanted] of Object.entries(rows)) {
    const end = sse({ type: 'message_delta', delta: { stop_reason } })
    t.equal(decode(DIALECTS.anthropic, [text, end]).stop, wanted, stop_reason)
  }
})

t.test('a thought signature stays with its call, a second choice is passed over', async (t) => {
  const call = {
    id: 'a',
    function: { name: 'now', arguments: '{}' },
    extra_content: { google: { thought_signature: 's' } },
  }
  const other = sse({ choices: [{ index: 1, delta: { content: 'no' } }] })
  const { message } = decode(DIALECTS.openai, [
    other,
    openAi({ tool_calls: [call] }),
    openAi({}, 'stop'),
  ])
  t.equal(message.text, '')
  t.strictSame(message.calls[0]?.extra, { extra_content: { google: { thought_signature: 's' } } })
})

t.test('a whole reply is read like a stream', async (t) => {
  const decoder = new StreamDecoder(DIALECTS.anthropic.read)
  const body = {
    type: 'message',
    content: [
      { type: 'text', text: 'hi' },
      { type: 'tool_use', id: 'a', name: 'now', input: { n: 1 } },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 1, output_tokens: 2 },
  }
  t.strictSame(decoder.feed(sse(body)), [{ kind: 'text', text: 'hi' }])
  t.ok(decoder.done)
  t.strictSame(decoder.end().reply.message.calls, [{ id: 'a', name: 'now', args: { n: 1 } }])
  for (const dialect of Object.values(DIALECTS)) {
    const nothing = new StreamDecoder(dialect.read)
    nothing.feed(sse({ ok: true }))
    t.throws(() => nothing.end(), { message: /empty response/, kind: 'empty' })
    t.throws(() => nothing.feed(sse({ error: 'down' })), { message: 'broke off: down' })
  }
})

t.test('an empty answer is an error that says why', async (t) => {
  const rows: [string, RegExp, string][] = [
    ['stop', /empty response: not a word/, 'empty'],
    ['length', /empty response: .*output limit/, 'empty'],
    ['content_filter', /empty response: .*content filter/, 'refused'],
  ]
  for (const [finish, message, kind] of rows)
    t.throws(() => decode(DIALECTS.openai, [openAi({}, finish)]), { message, kind }, finish)
})

t.test('what arrived of a broken reply is kept, and its calls never run', async (t) => {
  const decoder = new StreamDecoder(DIALECTS.openai.read)
  t.equal(decoder.partial(), undefined)
  decoder.feed(
    openAi({
      content: 'so',
      tool_calls: [{ id: 'a', function: { name: 'now', arguments: '{}' } }],
    }),
  )
  t.match(decoder.partial(), {
    text: 'so',
    state: 'failed',
    calls: [{ id: 'a', problem: 'the reply broke off' }],
  })
  t.throws(() => decoder.end(), { message: /ended the stream before the answer was complete/ })
})

t.test('failures: what a provider says decides the kind', async (t) => {
  const rows: [JsonObject | string, number | undefined, string, RegExp][] = [
    [
      { error: { message: 'slow down', code: 'rate_limit_exceeded' } },
      429,
      'busy',
      /^answered 429: slow down/,
    ],
    [{ error: { message: 'no credit', code: 'insufficient_quota' } }, 429, 'refused', /no credit/],
    [{ error: { message: 'pay' } }, 402, 'refused', /pay/],
    [{ error: { message: 'bad key' } }, 401, 'refused', /bad key/],
    [{ detail: 'no such model' }, 404, 'refused', /no such model/],
    [{ error: 'odd' }, 400, 'refused', /odd/],
    ['<html><h1>Bad Gateway</h1></html>', 502, 'busy', /: Bad Gateway$/],
    ['', 503, 'busy', /no reason given/],
    [
      { error: { message: 'Provider returned error', metadata: { raw: 'upstream said no' } } },
      400,
      'refused',
      /error; upstream said no/,
    ],
    [{ error: { message: 'gone', code: 502 } }, undefined, 'busy', /^broke off: gone/],
    [
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      undefined,
      'busy',
      /Overloaded/,
    ],
    [{ error: 'STREAM_EXPLODED' }, undefined, 'broken', /STREAM_EXPLODED/],
    [
      { error: { message: 'the request exceeds the available context size' } },
      500,
      'context',
      /available/,
    ],
    [{ error: { message: '\u001b[2Jx' } }, 400, 'refused', /\\e\[2Jx/],
  ]
  for (const [said, status, kind, message] of rows)
    t.match(failureOf(sse(said), status), { kind, message })
  const long = failureOf('é'.repeat(5000), 400)
  t.ok(long.message.length < 2_200)
  t.match(long.message, /é… \(2952 more characters\)$/)
})

t.test('a chunk that is no JSON is named, an empty one passed over', async (t) => {
  const decoder = new StreamDecoder(DIALECTS.openai.read)
  t.strictSame(decoder.feed(sse('')), [])
  t.throws(() => decoder.feed(sse('{"choices":[')), { message: /malformed stream/ })
  t.throws(() => decoder.feed(sse('<p>hi')), { message: 'sent a malformed stream: hi' })
})
