import t from 'tap'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  Agent,
  batches,
  ChatClient,
  cutPoint,
  estimateTokens,
  misfit,
  parseAnswer,
  PROVIDERS,
  summaryMessage,
  wordsOf,
  type AgentEvent,
  type Message,
  type Part,
  type TurnResult,
} from '../tai.ts'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { never, openWorld, person, type Setup } from './fakes/world.ts'

const BROKEN = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'The answer is' } }] })}\n\n`
const say = (text: string): Part[] => [{ kind: 'text', text }]
const openai = PROVIDERS.find((row) => row.name === 'openai')!

type With = Setup & {
  maxSteps?: number
  maxCost?: number
  schema?: object
  window?: number
  tools?: boolean
}

/** An agent in front of a scripted model, with real tools. */
async function openAgent(script: ModelTurn[], setup: With = {}) {
  const model = await startModel(script)
  const w = await openWorld(setup)
  const choice = {
    provider: { ...openai, baseUrl: `${model.url}/v1` },
    model: 'm',
    key: 'k',
    window: setup.window ?? 100_000,
    why: '',
  }
  const options = {
    chat: new ChatClient(choice, { http: w.http, idle: 5_000, random: () => 0 }),
    tools: setup.tools === false ? undefined : w.tools,
    store: w.store,
    session: w.session,
    system: () => 'be brief',
    maxSteps: setup.maxSteps ?? 10,
    maxCost: setup.maxCost ?? Infinity,
    schema: setup.schema as never,
    now: () => w.world.now(),
  }
  const close = async () => {
    await w.close()
    await model.close()
  }
  return { ...w, model, agent: new Agent(options), options, close }
}

async function play(
  agent: Agent,
  text: string,
  signal = never,
  watch: (event: AgentEvent) => void = () => {},
): Promise<TurnResult & { events: AgentEvent[] }> {
  const events: AgentEvent[] = []
  const turn = agent.runTurn(say(text), signal)
  for (;;) {
    const next = await turn.next()
    if (next.done === true) return { ...next.value, events }
    events.push(next.value)
    watch(next.value)
  }
}

t.test('a turn asks, acts, and answers; everything is in the vault as it happens', async (t) => {
  const a = await openAgent([
    { calls: [{ name: 'read_file', args: { path: 'a.txt' } }] },
    { text: 'It says hello.' },
  ])
  t.teardown(a.close)
  writeFileSync(join(a.root, 'a.txt'), 'hello\n')
  const result = await play(a.agent, 'what is in a.txt?')
  t.match(result, {
    answer: 'It says hello.',
    steps: 2,
    error: undefined,
    tools: [{ name: 'read_file', ok: true }],
  })
  const [, second] = a.model.requests
  t.match(second?.body.messages.slice(1), [
    { role: 'user' },
    { role: 'assistant', tool_calls: [{}] },
    { role: 'tool', content: /hello/ },
  ])
  const stored = (await a.store.messages(a.session)).map(({ message }) => message.role)
  t.strictSame(stored, ['user', 'assistant', 'tool', 'assistant'])
  t.match(
    result.events.map((event) => event.kind).filter((kind) => kind !== 'text'),
    ['usage', 'call', 'result', 'usage'],
  )
})

t.test(
  'a failing, an unknown, a denied and a good call of one step each get their reply, in order',
  async (t) => {
    const calls = [
      { name: 'time_now', args: {} },
      { name: 'mcp_down_tool', args: {} },
      { name: 'shell_exec', args: { command: 'touch x' } },
      { name: 'read_file', args: { path: 'nope' } },
    ]
    const a = await openAgent([{ calls }, { text: 'done' }])
    t.teardown(a.close)
    const result = await play(a.agent, 'go')
    t.equal(result.answer, 'done')
    const messages = a.model.requests[1]?.body.messages
    const asked = messages
      .find((m: { tool_calls?: unknown }) => m.tool_calls)
      .tool_calls.map((call: { id: string }) => call.id)
    const replied = messages.filter((m: { role: string }) => m.role === 'tool')
    t.strictSame(
      replied.map((m: { tool_call_id: string }) => m.tool_call_id),
      asked,
    )
    t.match(
      replied.map((m: { content: string }) => m.content),
      [/2026/, /no tool named mcp_down_tool/, /nobody can/, /nope/],
    )
  },
)

t.test('calls that only read run together, the others in their order', async (t) => {
  const call = (name: string) => ({ id: name, name, args: {} })
  const reads = (it: { name: string }) => it.name.startsWith('r')
  const grouped = batches(['r1', 'r2', 'w1', 'r3', 'w2', 'w3'].map(call), reads).map((batch) =>
    batch.map((it) => it.name),
  )
  t.strictSame(grouped, [['r1', 'r2'], ['w1'], ['r3'], ['w2'], ['w3']])
})

t.test('limits end a turn before the next request', async (t) => {
  const again: ModelTurn = { calls: [{ name: 'time_now', args: {} }] }
  const a = await openAgent([again, again, again], { maxSteps: 2 })
  t.teardown(a.close)
  const result = await play(a.agent, 'loop')
  t.match(result, {
    answer: '',
    steps: 2,
    error: { exitCode: 4, message: /2 steps/, hint: /--max-steps/ },
  })
  t.equal(a.model.requests.length, 2)
})

t.test('an interrupted call gets a reply, and the next turn is accepted', async (t) => {
  const stop = new AbortController()
  const calls = [
    { name: 'time_now', args: {} },
    { name: 'shell_exec', args: { command: 'sleep 30' } },
  ]
  const a = await openAgent([{ calls }, { text: 'fine' }], { mode: 'allow' })
  t.teardown(a.close)
  const result = await play(a.agent, 'wait', stop.signal, (event) => {
    if (event.kind === 'call' && event.call.name === 'shell_exec') stop.abort()
  })
  t.match(result, { error: { exitCode: 130 } })
  t.equal((await play(a.agent, 'go on')).answer, 'fine')
  const replies = a.model.requests[1]?.body.messages.filter(
    (m: { role: string }) => m.role === 'tool',
  )
  t.match(replies, [{ content: /2026/ }, { content: /interrupted/ }])
})

t.test(
  'what arrived of an answer that broke off is kept, marked, and the turn has failed',
  async (t) => {
    const a = await openAgent(
      [
        { headers: { 'content-type': 'text/event-stream' }, body: BROKEN, drop: true },
        { text: 'ok' },
      ],
      { tools: false },
    )
    t.teardown(a.close)
    const result = await play(a.agent, 'hi')
    t.match(result, { answer: '', error: { exitCode: 3 } })
    const last = (await a.store.messages(a.session)).at(-1)?.message
    t.match(last, { role: 'assistant', state: 'failed', text: /^The answer/ })
  },
)

t.test('calls denied and then silence: exit 5', async (t) => {
  const a = await openAgent([
    { calls: [{ name: 'shell_exec', args: { command: 'rm x' } }] },
    { text: '' },
  ])
  t.teardown(a.close)
  t.match(await play(a.agent, 'go'), { error: { exitCode: 5, message: /denied/ } })
})

t.test('an answer that must fit a schema is asked for again, three times at most', async (t) => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const a = await openAgent([{ text: 'seven' }, { text: '{"n":7}' }], { schema, tools: false })
  t.teardown(a.close)
  t.equal((await play(a.agent, 'how many?')).answer, '{"n":7}')
  const b = await openAgent([{ text: '1' }, { text: '2' }, { text: '3' }], { schema, tools: false })
  t.teardown(b.close)
  t.match(await play(b.agent, 'how many?'), { error: { exitCode: 6 } })
  t.equal(b.model.requests.length, 3)
  t.match(await misfit(schema, '{"n":"7"}'), /#\/n|n/)
  t.equal(await misfit(schema, '{"n":7}'), undefined)
  t.same(parseAnswer('```json\n[1]\n```'), [1])
  t.equal(parseAnswer('one'), undefined)
})

t.test('a history near the window is summed up once, and the turn goes on', async (t) => {
  const long = 'word '.repeat(2_000)
  const a = await openAgent(
    [{ text: 'one' }, { text: 'two' }, { text: 'SUMMARY' }, { text: 'three' }],
    { window: 7_000, tools: false },
  )
  t.teardown(a.close)
  await play(a.agent, long)
  await play(a.agent, long)
  const result = await play(a.agent, long)
  t.equal(result.answer, 'three')
  t.match(result.events, [{ kind: 'notice', text: /summing up/ }])
  t.match(a.model.requests.at(-1)?.body.messages[1], { role: 'user', content: /SUMMARY/ })
  t.ok((await a.store.messages(a.session)).some((row) => row.compacted))
})

t.test(
  'a refusal for length is retried once after a summary, and not at all when nothing can be summed up',
  async (t) => {
    const refusal: ModelTurn = {
      status: 400,
      headers: { 'content-type': 'application/json' },
      body: '{"error":{"message":"maximum context length is 8192 tokens","code":"context_length_exceeded"}}',
    }
    const a = await openAgent([refusal], { tools: false })
    t.teardown(a.close)
    t.match(await play(a.agent, 'hi'), { error: { exitCode: 3, message: /too long|context/i } })
    t.equal(a.model.requests.length, 1)
    const b = await openAgent([{ text: 'one' }, refusal, { text: 'SUMMARY' }, { text: 'two' }], {
      tools: false,
    })
    t.teardown(b.close)
    await play(b.agent, 'first')
    t.equal((await play(b.agent, 'second')).answer, 'two')
  },
)

t.test('what a person is asked is asked of the person', async (t) => {
  const asked = person('y')
  const a = await openAgent(
    [{ calls: [{ name: 'shell_exec', args: { command: 'touch made' } }] }, { text: 'made it' }],
    { prompter: asked },
  )
  t.teardown(a.close)
  t.equal((await play(a.agent, 'go')).answer, 'made it')
  t.match(asked.questions[0], /touch made/)
})

t.test('cutPoint never parts a call from its reply', async (t) => {
  const text = 'x'.repeat(300)
  const made: Record<string, Message> = {
    tool: { role: 'tool', id: 'c', name: 'n', text, isError: false },
    user: { role: 'user', parts: say(text) },
    assistant: { role: 'assistant', text, calls: [], state: 'complete' },
  }
  const message = (role: string) => made[role]!
  const history = ['user', 'assistant', 'tool', 'tool', 'assistant', 'user', 'assistant'].map(
    message,
  )
  const tokens = history.map(() => 100)
  for (const keep of [0, 100, 250, 400, 550, 10_000]) {
    const cut = cutPoint(history, tokens, keep)
    t.not(history[cut]?.role, 'tool', `keep ${keep}: cut ${cut}`)
  }
  t.equal(cutPoint(history.slice(0, 1), [9], 0), 0)
  t.equal((await estimateTokens(history)).length, 7)
  t.match(wordsOf(summaryMessage('r1', 'so far')), /so far/)
})
