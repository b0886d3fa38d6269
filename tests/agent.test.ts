import t, { type Test } from 'tap'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  Agent,
  annotate,
  batches,
  ChatClient,
  cutPoint,
  estimateTokens,
  InterruptedError,
  main,
  misfit,
  parseAnswer,
  PROVIDERS,
  summaryMessage,
  toolsOf,
  wordsOf,
  type AgentEvent,
  type Message,
  type Part,
  type TurnResult,
} from '../tai.ts'
import { startModel, stuck, type ModelTurn } from './fakes/model.ts'
import { outsideOf, runMain, type Settings } from './fakes/outside.ts'
import { begin, serveHere, textOf } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'
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

t.test('a call is answered by its id, and never runs when its arguments are broken', async (t) => {
  const name = 'time_now'
  const calls = [
    { id: 'c1', name, args: {} },
    { id: 'c2', name, args: '{"tz": ' },
  ]
  for (const tools of [true, false]) {
    const a = await openAgent([{ calls }, { text: 'done' }], { tools })
    t.teardown(a.close)
    const { events, denied } = await play(a.agent, 'go')
    const replies = events.flatMap((event) => (event.kind === 'result' ? event.reply : []))
    t.match(replies, [
      { role: 'tool', id: 'c1', isError: !tools, text: tools ? /^now / : /no tools here/ },
      { role: 'tool', id: 'c2', isError: true, text: /^not run: / },
    ])
    t.notOk(denied)
  }
})

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
  const many = batches(
    Array.from({ length: 9 }, () => call('r')),
    reads,
  )
  t.strictSame(
    many.map(({ length }) => length),
    [8, 1],
  )
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

// --- sub-agents ---

type Seen = {
  messages: { role: string; content: string }[]
  tools: { function: { name: string } }[]
}

const run = (task: string, more: object = {}): ModelTurn => ({
  calls: [{ name: 'agent_run', args: { task, ...more } }],
})
const write: ModelTurn = { calls: [{ name: 'write_file', args: { path: 'made', content: 'x' } }] }

/** One run of the program in front of a scripted model, and what each request carried. */
async function scene(t: Test, script: ModelTurn[], options: { home?: string } = {}) {
  const model = await startModel(script)
  t.teardown(() => model.close())
  const home = options.home ?? folder()
  const play = async (flags: string[], settings: Settings = {}) => {
    const ran = await runMain(['--json', ...flags], { home, env: modelEnv(model), ...settings })
    return { ...ran, outcome: JSON.parse(ran.out) }
  }
  const bodies = (): Seen[] => model.requests.map(({ body }) => body)
  const said = (n: number) => bodies()[n]?.messages.at(-1)?.content ?? ''
  return { model, home, play, bodies, said }
}

t.test('a sub-agent sees only its task; its answer and what it used come back', async (t) => {
  const usage = { input: 10, output: 2 }
  const w = await scene(t, [
    { ...run('count the files'), usage },
    { calls: [{ name: 'time_now', args: {} }], usage },
    { text: 'There are 7.', usage },
    { text: 'Seven.', usage },
    { text: 'Again.' },
  ])
  const { outcome } = await w.play(['--auto', 'how many?'])
  t.match(outcome, { answer: 'Seven.', steps: 2, usage: { input: 40, output: 8 }, exit: 0 })
  const [, child] = w.bodies()
  t.strictSame(
    child?.messages.slice(1).map(({ role, content }) => [role, content]),
    [['user', 'count the files']],
  )
  t.notMatch(JSON.stringify(child), 'how many?')
  t.match(w.said(3), /^There are 7\.\n\n\[sub-agent, session \w+\]$/)
  const [, id = ''] = /session (\w+)/.exec(w.said(3)) ?? []
  t.not(id, outcome.session)
  t.match((await runMain(['session', 'show', id], { home: w.home })).out, /count the files/)
  const on = await w.play(['-c', 'and now?'])
  t.equal(on.outcome.session, outcome.session, 'a sub-agent is not gone on with')
})

t.test('a sub-agent has at most the tools of its parent', async (t) => {
  const only = ['--tools', 'agent_run,read_file,time_now']
  const w = await scene(t, [
    run('a', { tools: ['shell_exec'] }),
    run('b', { tools: ['time_now'] }),
    { text: 'b' },
    run('c', { tools: [] }),
    { text: 'c' },
    run('d'),
    { text: 'd' },
    { text: 'done' },
  ])
  t.match((await w.play(['--yolo', ...only, 'go'])).outcome, { answer: 'done' })
  t.match(w.said(1), /no tool named shell_exec/)
  const offered = w.bodies().map(({ tools = [] }) => tools.map((it) => it.function.name).toSorted())
  t.strictSame(offered[2], ['time_now'])
  t.strictSame(offered[4], [])
  t.strictSame(offered[6], ['agent_run', 'read_file', 'time_now'])
})

t.test('a profile may only tighten what a sub-agent may do', async (t) => {
  const home = folder()
  for (const [name, mode] of [
    ['careful', 'read-only'],
    ['wild', 'danger-full-access'],
  ] as const)
    await runMain(['profile', 'create', name, '--permission-mode', mode], { home })
  await runMain(['profile', 'edit', 'careful', '--tools', 'write_file'], { home })
  const cases: [flags: string[], profile: string | undefined, found: RegExp][] = [
    [['--yolo'], 'careful', /mode read-only changes nothing/],
    [[], 'wild', /nobody can be asked/],
    [['--yolo'], undefined, /wrote|made/],
    [['--yolo'], 'nobody', /./],
  ]
  for (const [flags, profile, found] of cases) {
    const asked = run('write', profile === undefined ? {} : { profile })
    const child = profile === 'nobody' ? [] : [write, { text: 'tried' }]
    const w = await scene(t, [asked, ...child, { text: 'done' }], { home })
    t.match((await w.play([...flags, 'go'])).outcome, { answer: 'done' })
    t.match(w.said(child.length), found, `${flags} ${profile}`)
    if (profile === 'nobody') t.match(w.said(1), /no profile nobody/)
    if (profile === 'careful')
      t.strictSame(
        w.bodies()[1]?.tools.map((it) => it.function.name),
        ['write_file'],
      )
  }
})

t.test(
  'what a person allows for the session holds in its sub-agents, and theirs in it',
  async (t) => {
    const w = await scene(t, [write, run('write'), write, { text: 'ok' }, write, { text: 'done' }])
    const one = person('s')
    t.match((await w.play(['go'], { prompter: one })).outcome, { answer: 'done' })
    t.equal(one.questions.length, 1)
    const v = await scene(t, [run('write'), write, { text: 'ok' }, write, { text: 'done' }])
    const other = person('s')
    t.match((await v.play(['go'], { prompter: other })).outcome, {
      answer: 'done',
      tools: [{ ok: true }, { ok: true }],
    })
    t.equal(other.questions.length, 1)
  },
)

t.test(
  'what a sub-agent did can be undone by its parent, whose tasks it leaves alone',
  async (t) => {
    const todo = (text: string): ModelTurn => ({
      calls: [{ name: 'todo_write', args: { items: [{ text, status: 'pending' }] } }],
    })
    const undo: ModelTurn = { calls: [{ name: 'undo_edit', args: {} }] }
    const w = await scene(t, [
      todo('mine'),
      run('write'),
      write,
      todo('theirs'),
      { text: 'ok' },
      undo,
      { calls: [{ name: 'todo_read', args: {} }] },
      { text: 'done' },
    ])
    t.match((await w.play(['--yolo', 'go'])).outcome, { answer: 'done' })
    t.match(w.said(4), /no tool named todo_write/)
    t.equal(existsSync(join(w.home, 'made')), false)
    t.match(w.said(7), /mine/)
  },
)

t.test('sub-agents of sub-agents end at a depth, and steps at a limit', async (t) => {
  const deeper = [1, 2, 3, 4].map((n) => run(`level ${n}`))
  const w = await scene(t, [...deeper, ...deeper.map((_, n) => ({ text: `back ${n}` }))])
  t.match((await w.play(['--yolo', 'go'])).outcome, { answer: 'back 3' })
  t.match(w.said(4), /3 deep already/)
  const again: ModelTurn = { calls: [{ name: 'time_now', args: {} }] }
  const v = await scene(t, [run('loop', { max_steps: 2 }), again, again, { text: 'done' }])
  t.match((await v.play(['--yolo', 'go'])).outcome, { answer: 'done', tools: [{ ok: false }] })
  t.match(v.said(3), /no answer after 2 steps/)
  const u = await scene(t, [run('loop', { max_steps: 9 }), again, again, { text: 'done' }])
  t.match((await u.play(['--yolo', '--max-steps', '2', 'go'])).outcome, { answer: 'done' })
})

t.test('the cost of a sub-agent is its parent’s, and so is the limit', async (t) => {
  const spent = { usage: { input: 1, output: 1, cached: 0 }, cost: 0.5 }
  let left = 0
  let budget = () => 0
  const rows = toolsOf('test', {
    spend: {
      description: 'It spends.',
      annotations: annotate('Low', 'reads'),
      core: true,
      run: async () => {
        left = budget()
        return { text: 'spent', spent }
      },
    },
  })
  const again: ModelTurn = { calls: [{ name: 'spend', args: {} }] }
  const a = await openAgent([again, again, again, again], { rows, maxCost: 0.9 })
  t.teardown(a.close)
  budget = () => a.tools.budget
  const result = await play(a.agent, 'go')
  t.match(result, { cost: 1, usage: { input: 2 }, error: { exitCode: 4, message: /0\.9/ } })
  t.equal(left, 0.4)
  t.equal(result.events.filter((it) => it.kind === 'usage' && it.cost === 0.5).length, 2)
})

t.test('a sub-agent stops with its parent', async (t) => {
  const w = await scene(t, [run('wait'), stuck('I am')])
  const stop = new AbortController()
  const outside = outsideOf({ home: w.home, env: modelEnv(w.model) })
  const over = main(['--yolo', 'go'], { ...outside, signal: stop.signal })
  const { over: closed } = await w.model.seen(2)
  stop.abort(new InterruptedError('interrupted'))
  t.equal(await over, 130)
  await closed
})

t.test(
  'a served agent_run works alone and in a chat, and ends when its client leaves',
  async (t) => {
    const model = await startModel([
      { text: 'Alone.' },
      run('in a chat'),
      { text: 'Within.' },
      { text: 'Done.' },
      stuck('I am'),
    ])
    t.teardown(() => model.close())
    const server = await serveHere(t, { env: modelEnv(model) })
    const peer = await begin(server)
    const alone = await peer.call('agent_run', { task: 'by itself' })
    t.match(textOf(alone), /^Alone\.\n\n\[sub-agent, session \w+\]$/)
    t.match(alone.body.result.structuredContent, { answer: 'Alone.', steps: 1, exit: 0 })
    const names = model.requests[0]?.body.tools.map(
      (it: { function: { name: string } }) => it.function.name,
    )
    t.ok(names.includes('agent_run') || names.includes('select_tools'))
    t.notOk(names.includes('chat'))
    t.equal(textOf(await peer.call('chat', { message: 'go' })), 'Done.')
    const leave = new AbortController()
    const gone = peer.call('agent_run', { task: 'x' }, leave.signal).catch(() => {})
    const { over } = await model.seen(5)
    leave.abort()
    await gone
    await over
  },
)
