// model.ts: a small model server that answers from a script, in both dialects.
//
//   const model = await startModel([{ calls: [{ name: 'now', args: {} }] }, { text: 'noon' }])
//   ... OPENAI_BASE_URL=`${model.url}/v1`  or  ANTHROPIC_BASE_URL=model.url ...
//   model.requests[1].body.messages      what the second request carried
//   await model.seen(2)                  resolves when the second request has arrived
//   await model.close()                  ends every connection
//
// A request takes the next turn of the script, whatever its dialect; a request after the
// last turn gets 400. The script may be a function of the request instead. A turn holds
// what the model says (text, calls, reasoning, stop), or the reply as it is (status,
// headers, body), and how it comes: `bytewise`, one byte a write; `hold`, left open after
// the last byte; `hang`, no reply at all; `drop`, socket closed after the last byte. A client
// that does not ask for a stream, or `whole`, gets one JSON body.
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'

export type ModelTurn = {
  text?: string
  calls?: readonly { name: string; args: unknown; id?: string }[]
  reasoning?: string
  stop?: 'stop' | 'length' | 'content_filter'
  usage?: { input: number; output: number; cached?: number }
  status?: number
  headers?: Readonly<Record<string, string>>
  body?: string | Buffer
  bytewise?: boolean
  whole?: boolean
  hold?: boolean
  hang?: boolean
  drop?: boolean
}

export type SeenRequest = {
  path: string
  headers: http.IncomingHttpHeaders
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies freely
  body: any
  port: number
  over: Promise<void> // when its connection has closed, or its reply was sent
}

export type FakeModel = {
  url: string // without /v1
  requests: SeenRequest[]
  push(...turns: ModelTurn[]): void
  seen(count: number): Promise<SeenRequest>
  close(): Promise<void>
}

type Script = readonly ModelTurn[] | ((request: SeenRequest, n: number) => ModelTurn)

/** A reply that begins with this text and never goes on. */
export const stuck = (text: string): ModelTurn => ({
  body: `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`,
  hold: true,
})

const OVER: ModelTurn = {
  status: 400,
  headers: { 'content-type': 'application/json' },
  body: '{"error":{"message":"the script of the fake model is over"}}',
}

export async function startModel(
  script: Script = [],
  options: { models?: readonly (string | object)[] } = {},
): Promise<FakeModel> {
  const requests: SeenRequest[] = []
  const turns = typeof script === 'function' ? [] : [...script]
  const next = (seen: SeenRequest) =>
    typeof script === 'function' ? script(seen, requests.length - 1) : (turns.shift() ?? OVER)
  const waiting: { count: number; resolve: (seen: SeenRequest) => void }[] = []

  const server = http.createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const path = request.url ?? ''
    if (request.method === 'GET') return answerList(response, options.models ?? ['fake-model'])
    const text = Buffer.concat(pieces).toString()
    const port = request.socket.remotePort ?? 0 // of the client: the same for a kept connection
    const over = new Promise<void>((resolve) => response.on('close', resolve))
    const seen = { path, headers: request.headers, body: JSON.parse(text), port, over }
    requests.push(seen)
    const turn = next(seen)
    for (const { count, resolve } of waiting) if (count === requests.length) resolve(seen)
    if (!turn.hang) await answer(response, turn, seen)
  })
  server.on('clientError', (_error, socket) => socket.destroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    push: (...more) => turns.push(...more),
    seen: (count) => {
      const { promise, resolve } = Promise.withResolvers<SeenRequest>()
      const [past] = requests.slice(count - 1)
      if (past) resolve(past)
      else waiting.push({ count, resolve })
      return promise
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function answerList(response: http.ServerResponse, models: readonly (string | object)[]): void {
  response.setHeader('content-type', 'application/json')
  const data = models.map((model) => (typeof model === 'string' ? { id: model } : model))
  response.end(JSON.stringify({ object: 'list', data }))
}

async function answer(
  response: http.ServerResponse,
  turn: ModelTurn,
  seen: SeenRequest,
): Promise<void> {
  response.on('error', () => {}) // a client that left
  const said = turn.body ?? (seen.path.endsWith('/messages') ? anthropic : openai)(turn, seen)
  const body = Buffer.from(said as string)
  const type = body.subarray(0, 1).toString() === '{' ? 'application/json' : 'text/event-stream'
  response.writeHead(turn.status ?? 200, { 'content-type': type, ...turn.headers })
  response.flushHeaders()
  if (turn.bytewise) await writeBytes(response, body)
  else response.write(body)
  if (turn.drop) setImmediate(() => response.destroy())
  else if (!turn.hold) response.end()
}

async function writeBytes(response: http.ServerResponse, body: Buffer): Promise<void> {
  response.socket?.setNoDelay(true)
  for (let i = 0; i < body.length && !response.destroyed; i++) {
    response.write(body.subarray(i, i + 1))
    if (i % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
}

/** A text in two pieces, so that clients are seen to join them. */
const halves = (text: string): string[] =>
  [text.slice(0, text.length / 2), text.slice(text.length / 2)].filter(Boolean)

const event = (data: object | string, name?: string): string =>
  `${name ? `event: ${name}\n` : ''}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

const callId = (turn: ModelTurn, i: number, seen: SeenRequest): string =>
  turn.calls?.[i]?.id ?? `call_${seen.body.messages.length}_${i}`

function openai(turn: ModelTurn, seen: SeenRequest): string {
  const { text = '', calls = [], reasoning = '', usage } = turn
  const finish_reason = turn.stop ?? (calls.length > 0 ? 'tool_calls' : 'stop')
  const made = calls.map(({ name, args }, index) => ({
    index,
    id: callId(turn, index, seen),
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  }))
  const counted = usage && {
    prompt_tokens: usage.input,
    completion_tokens: usage.output,
    prompt_tokens_details: { cached_tokens: usage.cached ?? 0 },
  }
  if (turn.whole || !seen.body.stream) {
    const message = { role: 'assistant', content: text || null, reasoning_content: reasoning }
    return JSON.stringify({
      choices: [{ index: 0, message: { ...message, tool_calls: made }, finish_reason }],
      usage: counted,
    })
  }
  const chunk = (delta: object, finish: string | null = null) =>
    event({
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta, finish_reason: finish }],
    })
  return [
    chunk({ role: 'assistant', content: '' }),
    ...halves(reasoning).map((piece) => chunk({ reasoning_content: piece })),
    ...halves(text).map((content) => chunk({ content })),
    ...made.map((call) => chunk({ tool_calls: [call] })),
    chunk({}, finish_reason),
    ...(counted ? [event({ choices: [], usage: counted })] : []),
    event('[DONE]'),
  ].join('')
}

const ANTHROPIC_STOPS = {
  stop: 'end_turn',
  length: 'max_tokens',
  content_filter: 'refusal',
  calls: 'tool_use',
}

const say = (type: string, more: object): string => event({ type, ...more }, type)

function anthropic(turn: ModelTurn, seen: SeenRequest): string {
  const { text = '', calls = [], reasoning = '', usage = { input: 1, output: 1 } } = turn
  const stop_reason = ANTHROPIC_STOPS[turn.stop ?? (calls.length > 0 ? 'calls' : 'stop')]
  const counted = {
    input_tokens: usage.input - (usage.cached ?? 0),
    cache_read_input_tokens: usage.cached ?? 0,
    output_tokens: usage.output,
  }
  const blocks = [
    ...(reasoning ? [{ type: 'thinking', thinking: reasoning, signature: 'signed' }] : []),
    ...(text ? [{ type: 'text', text }] : []),
    ...calls.map(({ name, args }, i) => ({
      type: 'tool_use',
      id: callId(turn, i, seen),
      name,
      input: args,
    })),
  ]
  if (turn.whole || !seen.body.stream)
    return JSON.stringify({ type: 'message', content: blocks, stop_reason, usage: counted })
  return [
    say('message_start', { message: { content: [], usage: { ...counted, output_tokens: 1 } } }),
    ...blocks.flatMap((block, index) => [
      say('content_block_start', { index, content_block: emptied(block) }),
      ...deltas(block).map((delta) => say('content_block_delta', { index, delta })),
      say('content_block_stop', { index }),
    ]),
    say('message_delta', { delta: { stop_reason }, usage: { output_tokens: usage.output } }),
    say('message_stop', {}),
  ].join('')
}

// oxlint-disable-next-line typescript/no-explicit-any -- blocks of three shapes
function emptied(block: any): object {
  if (block.type === 'text') return { type: 'text', text: '' }
  if (block.type === 'thinking') return { type: 'thinking', thinking: '', signature: '' }
  return { ...block, input: {} }
}

// oxlint-disable-next-line typescript/no-explicit-any -- blocks of three shapes
function deltas(block: any): object[] {
  if (block.type === 'text') return halves(block.text).map((text) => ({ type: 'text_delta', text }))
  if (block.type === 'thinking')
    return [
      { type: 'thinking_delta', thinking: block.thinking },
      { type: 'signature_delta', signature: block.signature },
    ]
  const json = typeof block.input === 'string' ? block.input : JSON.stringify(block.input)
  return halves(json).map((partial_json) => ({ type: 'input_json_delta', partial_json }))
}
