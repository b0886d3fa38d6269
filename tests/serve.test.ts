// What a served session is, and its two tools more: chat and completions. Servers of this process have
// a clock that the test sets; where processes or signals matter, the binary runs.
import t from 'tap'

import { mock } from 'node:test'
import {
  answerRpc,
  MCP_CHAT_TIMEOUT,
  MCP_QUEUE_MAX,
  MCP_SESSION_IDLE,
  MCP_SESSIONS_MAX,
  McpServeContext,
  McpSession,
  MINUTE,
  RPC_METHODS,
  RPC_NOTIFICATIONS,
  rpcErrorOf,
  sleep,
  STORE_GLANCE,
  TOOLS,
  type JsonObject,
  type RpcCall,
  type Message,
} from '../tai.ts'
import { groupIsGone, membersOf } from './fakes/groups.ts'
import { startModel, stuck, type FakeModel, type ModelTurn } from './fakes/model.ts'
import { begin, KEY, openApp, send, serve, serveHere, textOf } from './fakes/served.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'

type Test = Parameters<typeof openApp>[0]
type Setup = Parameters<typeof openApp>[1] & { turns?: Parameters<typeof startModel>[0] }
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into replies freely
type Body = any

/** A server's inside, with a model behind it. */
async function inside(t: Test, { turns = [], key = KEY, ...setup }: Setup = {}) {
  const model = await startModel(turns)
  t.teardown(() => model.close())
  const env = { ...modelEnv(model), ...setup.env }
  const opened = openApp(t, { ...setup, env })
  const context = await McpServeContext.open(opened.app, { key, usual: 'danger-full-access' })
  t.teardown(() => context.close())
  const store = await opened.app.store()
  let ids = 0
  /** One tools/call in a session of the vault of its own, or in that of `id`. */
  const ask = async (id: string, name: string, args: JsonObject, stop = new AbortController()) => {
    const session = context.session(id)
    const params = { name, arguments: args }
    const request = { id: ++ids, method: 'tools/call', params }
    const reply = await answerRpc(context, request, { era: 'legacy', session, stop })
    return JSON.parse(`${reply?.body}`) as Body
  }
  const history = async (id: string): Promise<Message[]> =>
    (await store.messages(id)).map((row) => row.message)
  return { ...opened, context, store, model, ask, history }
}

const roles = (messages: readonly { role: string }[]): string =>
  messages.map(({ role }) => role).join(' ')

/** The process group that process_list names. */
const groupOf = (list: string): number => Number(/pid (\d+)/.exec(list)?.[1])

/** What the model was told by its n-th request. */
const told = (model: FakeModel, n: number): string =>
  JSON.stringify(model.requests[n]?.body.messages)

t.test('every method and notification that is answered is listed', async (t) => {
  t.strictSame(
    [...RPC_METHODS.keys()],
    [
      'initialize',
      'ping',
      'server/discover',
      'tools/list',
      'tools/call',
      'resources/list',
      'resources/templates/list',
      'resources/read',
    ],
  )
  const open = [...RPC_METHODS].filter(([, { only }]) => only).map(([name]) => name)
  t.strictSame(open, ['initialize', 'ping', 'server/discover'])
  t.strictSame(
    [...RPC_NOTIFICATIONS.keys()],
    ['notifications/initialized', 'notifications/cancelled'],
  )
})

t.test('every native tool is listed as it is, and two more', async (t) => {
  const { context } = await inside(t)
  const { tools } = JSON.parse(context.list) as Body
  t.strictSame(
    tools.map((tool: Body) => tool.name),
    [...TOOLS.map(({ name }) => name), 'chat', 'completions'],
  )
  for (const [i, { description, parameters, annotations }] of TOOLS.entries())
    t.strictSame(tools[i], {
      name: tools[i].name,
      description,
      inputSchema: parameters,
      annotations,
    })
  t.equal(context.toolCount, tools.length)
  const few = await inside(t, { args: ['--tools', 'time_now,completions'] })
  t.equal(few.context.toolCount, 2)
  const id = few.context.newSession()
  t.match(await few.ask(id, 'time_now', {}), { result: { content: [{ type: 'text' }] } })
  t.match(await few.ask(id, 'chat', { message: 'x' }), { error: { code: -32601 } })
})

t.test('the key is compared whole', async (t) => {
  const { context, err } = await inside(t)
  for (const header of [`Bearer ${KEY}`, `bearer ${KEY}`]) t.equal(context.admits(header), true)
  for (const header of [
    undefined,
    '',
    'Bearer',
    `Bearer  ${KEY}`,
    `Bearer ${KEY} `,
    KEY,
    'Bearer \u00e9',
  ])
    t.equal(context.admits(header), false, `${header}`)
  t.notMatch(err.text, KEY)
  t.equal(
    rpcErrorOf(new Error(`it was ${KEY}`), context.redactor).message,
    'it was [redacted:mcp-key]',
  )
})

t.test('a flood of initialize leaves nothing in memory, and forged ids neither', async (t) => {
  const { context } = await inside(t)
  const ids = Array.from({ length: 20_000 }, () => context.newSession())
  t.equal(new Set(ids).size, ids.length)
  t.equal(context.sessions.size, 0)
  const [id = ''] = ids
  const [random = '', made = '', mac = ''] = id.split('.')
  const forged = [
    '',
    '..',
    `${random}.${made}`,
    `${id}.`,
    ` ${id}`,
    `${random}.${made}0.${mac}`,
    `${mac}.${made}.${mac}`,
    id.toUpperCase(),
    id.slice(0, -1),
  ]
  for (const each of forged) t.equal(context.session(each), undefined, each)
  t.equal(context.sessions.size, 0)
  t.type(context.session(id), McpSession)
  t.equal(context.sessions.size, 1)
})

t.test('a session counts for every server of its key and home, until one ends it', async (t) => {
  const home = folder()
  const [one, two] = [await inside(t, { home }), await inside(t, { home })]
  const other = await inside(t, { home, key: 'another-key-0123456789' })
  const id = one.context.newSession()
  for (const { context } of [one, two]) t.equal(context.session(id)?.id, id)
  t.equal(other.context.session(id), undefined)
  const inTwo = two.context.session(id)
  await two.ask(id, 'process_start', { command: 'exec sleep 30' })
  const group = groupOf(textOf({ body: await two.ask(id, 'process_list', {}) } as never))
  t.equal(membersOf(group).length, 1)
  const mine = one.context.session(id)
  if (mine === undefined) throw new Error('no session')
  one.context.endSession(mine)
  t.equal(one.context.session(id), undefined)
  await sleep(2 * STORE_GLANCE)
  two.clock.now += MINUTE
  two.context.sweep()
  t.equal(two.context.sessions.size, 0)
  t.ok(await groupIsGone(group), 'what it had started elsewhere ends with the next sweep')
  t.equal(two.context.session(id), undefined)
  t.equal(inTwo?.isIdle, false)
})

t.test('a call that still runs elsewhere does not bring an ended session back', async (t) => {
  const home = folder()
  const [one, two] = [await inside(t, { home }), await inside(t, { home })]
  const id = one.context.newSession()
  const running = two.ask(id, 'shell_exec', { command: 'read line', stdin: 'x' })
  const own = one.context.session(id)
  if (own !== undefined) one.context.endSession(own)
  two.clock.now += 5 * MINUTE
  t.match(await running, { result: {} })
  for (const { context } of [one, two]) t.equal(context.session(id), undefined)
})

t.test(
  'a session that nobody uses is over everywhere, one that is used anywhere is not',
  async (t) => {
    const home = folder()
    const [one, two] = [await inside(t, { home }), await inside(t, { home })]
    two.clock.now = one.clock.now
    const pass = (ms: number) => {
      one.clock.now += ms
      two.clock.now += ms
      for (const { context } of [one, two]) context.sweep()
    }
    const id = one.context.newSession()
    t.ok(one.context.session(id) && two.context.session(id))
    for (let i = 0; i < 5; i++) {
      pass(MCP_SESSION_IDLE - MINUTE)
      t.ok(one.context.session(id), 'used in one')
    }
    t.ok(two.context.session(id), 'it is kept alive in the other')
    pass(30 * MINUTE)
    t.ok(one.context.session(id), 'used in one alone, and long ago in the other')
    pass(31 * MINUTE)
    pass(30 * MINUTE)
    for (const { context } of [one, two]) {
      t.equal(context.sessions.size, 0, 'looking for what is over is no use of it')
      t.equal(context.session(id), undefined)
    }
    pass(5 * MCP_SESSION_IDLE)
    t.equal(one.context.session(id), undefined, 'nor does it come back when its row is gone')
    t.ok(one.context.session(one.context.newSession()))
    t.equal(one.store.db.all('SELECT id FROM mcp_sessions').length, 1)
    const unused = one.context.newSession()
    pass(MCP_SESSION_IDLE + 1)
    t.equal(one.context.session(unused), undefined, 'an id that was never used grows old too')
  },
)

t.test('idleness ends what a session has started, but no call that runs', async (t) => {
  const { context, clock, ask } = await inside(t)
  const id = context.newSession()
  await ask(id, 'process_start', { command: 'exec sleep 30' })
  const group = groupOf((await ask(id, 'process_list', {})).result.content[0].text)
  const stop = new AbortController()
  const running = ask(id, 'shell_exec', { command: 'sleep 30' }, stop)
  clock.now += MCP_SESSION_IDLE + 1
  context.sweep()
  t.equal(context.sessions.size, 1)
  t.equal(membersOf(group).length, 1)
  stop.abort(new Error('enough'))
  t.match(await running, { error: { code: -32000, message: /interrupted/ } })
  clock.now += MCP_SESSION_IDLE + 1
  context.sweep()
  t.equal(context.sessions.size, 0)
  t.ok(await groupIsGone(group))
})

t.test(
  'the longest unused session makes room; when all are at work the next is told so',
  async (t) => {
    const { context, ask, clock } = await inside(t)
    const ids = Array.from({ length: MCP_SESSIONS_MAX }, () => context.newSession())
    for (const id of ids) context.session(id)
    const [first = '', second = ''] = ids
    clock.now += 1
    context.session(first)
    const kept = context.session(first)
    context.session(context.newSession())
    t.equal(context.sessions.size, MCP_SESSIONS_MAX)
    t.equal(context.session(first), kept, 'it was used lately')
    t.ok(context.session(second), 'one that was let go is taken up again')
    t.equal(context.sessions.size, MCP_SESSIONS_MAX)

    const call = { stop: new AbortController() } as RpcCall
    const idle = new Promise<never>(() => {})
    const busy = Array.from({ length: MCP_SESSIONS_MAX }, () => context.newSession())
    for (const id of busy) context.session(id)?.calls.set(call, idle)
    t.throws(() => context.session(context.newSession()), {
      code: -32002,
      message: /1000 sessions are at work/,
    })
    t.equal(context.session(busy[0] ?? '')?.id, busy[0], 'those that are here go on')
    for (const id of busy) context.session(id)?.calls.delete(call)
    t.match(await ask(context.newSession(), 'time_now', {}), { result: {} })
  },
)

t.test('calls of one session run in their order, and only so many wait', async (t) => {
  const { context, ask } = await inside(t)
  const id = context.newSession()
  const calls = Array.from({ length: 12 }, (_, i) =>
    ask(id, 'shell_exec', { command: `echo ${i} >> order; sleep 0.0${12 - i}` }),
  )
  await Promise.all(calls)
  const { result } = await ask(id, 'read_file', { path: 'order' })
  t.strictSame(
    [...result.content[0].text.matchAll(/(\d+)$/gm)].map(([, n]) => Number(n)),
    Array.from({ length: 12 }, (_, i) => i),
  )

  const stop = new AbortController()
  const waiting = Array.from({ length: MCP_QUEUE_MAX }, () =>
    ask(id, 'shell_exec', { command: 'sleep 30' }, stop),
  )
  await new Promise(setImmediate)
  t.match(await ask(id, 'time_now', {}), {
    error: { code: -32002, message: /64 calls of this session/ },
  })
  const elsewhere = await ask(context.newSession(), 'time_now', {})
  t.match(elsewhere, { result: {} }, 'other sessions do not wait')
  stop.abort(new Error('enough'))
  for (const reply of await Promise.all(waiting)) t.match(reply, { error: { code: -32000 } })
  t.match(await ask(id, 'time_now', {}), { result: {} })
})

t.test('a call that was cancelled ends, and one that waited never runs', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const calls = ['echo a > a; sleep 30', 'echo b > b'].map((command, id) =>
    peer.post({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'shell_exec', arguments: { command } },
    }),
  )
  const other = await begin(server)
  while (!/^a$/m.test(textOf(await other.call('glob', { pattern: '*' })))) {}
  t.match(await other.tell('notifications/cancelled', { requestId: 0 }), { status: 202 })
  t.match(await peer.tell('notifications/cancelled', { requestId: 1, reason: 'x' }), {
    status: 202,
  })
  t.match(await peer.tell('notifications/cancelled', { requestId: 0 }), { status: 202, text: '' })
  for (const reply of await Promise.all(calls))
    t.match(reply, { status: 200, body: { error: { code: -32000, message: /interrupted/ } } })
  t.equal(textOf(await peer.call('glob', { pattern: '*' })).trim(), 'a')
  for (const params of [{}, { requestId: null }, { requestId: {} }, { requestId: 7 }])
    t.match(await peer.tell('notifications/cancelled', params), { status: 202 })
})

t.test('what is refused is not told at length, nor kept', async (t) => {
  const { context, ask, store } = await inside(t)
  const id = context.newSession()
  const long = 'x'.repeat(1_000_000)
  const refused = [
    await ask(id, long, {}),
    await ask(id, 'time_now', { [long]: 1 }),
    await ask(id, 'time_now', { tz: [long] }),
  ]
  for (const reply of refused) {
    t.match(reply.error.code, /-3260[12]/)
    t.ok(JSON.stringify(reply).length < 15_000, `${JSON.stringify(reply).length} bytes`)
  }
  const [{ bytes } = { bytes: 0 }] = store.db.all<{ bytes: number }>(
    'SELECT max(length(data_json)) AS bytes FROM audit',
  )
  t.ok(bytes > 0 && bytes < 1_000, `${bytes} bytes`)
})

t.test('a vault that takes nothing more does not end the service', async (t) => {
  const { context, ask, store, clock } = await inside(t)
  const id = context.newSession()
  t.match(await ask(id, 'time_now', {}), { result: {} })
  store.db.exec('PRAGMA query_only = ON')
  clock.now += 5 * MINUTE
  context.sweep()
  t.match(await ask(id, 'time_now', {}), { result: {} })
  t.match(await ask(context.newSession(), 'time_now', {}), { result: {} })
  store.db.exec('PRAGMA query_only = OFF')
})

t.test('of calls with the same id both end with their session', async (t) => {
  const { context, ask } = await inside(t)
  const id = context.newSession()
  const session = context.session(id)
  const params = { name: 'shell_exec', arguments: { command: 'sleep 30' } }
  const call = (): RpcCall => ({
    id: 1,
    era: 'legacy',
    params,
    session,
    stop: new AbortController(),
  })
  const both = [context.callTool(call()), context.callTool(call())]
  await ask(context.newSession(), 'time_now', {})
  if (session !== undefined) context.endSession(session)
  for (const settled of await Promise.allSettled(both))
    t.match(settled, { status: 'rejected', reason: { code: -32000 } })
})

t.test('chat keeps its history in the vault, and goes on with it', async (t) => {
  const turns = [{ text: 'Hello Ann.' }, { text: 'You are Ann.' }, { text: 'Still Ann.' }]
  const it = await inside(t, { turns })
  const id = it.context.newSession()
  const first = await it.ask(id, 'chat', { message: 'I am Ann.' })
  const { session } = first.result.structuredContent
  t.match(first.result, {
    content: [{ type: 'text', text: 'Hello Ann.' }],
    structuredContent: { model: 'openai/fake-model', steps: 1, exit: 0 },
  })
  t.equal(roles(await it.history(session)), 'user assistant')
  t.match(await it.store.findSession(session), { title: 'I am Ann.', model: 'openai/fake-model' })
  const second = await it.ask(id, 'chat', { message: 'Who am I?' })
  t.equal(second.result.structuredContent.session, session, "none means the MCP session's own")
  t.match(told(it.model, 1), /I am Ann[\s\S]*Hello Ann[\s\S]*Who am I/)
  const elsewhere = await it.ask(it.context.newSession(), 'chat', { message: 'And now?', session })
  t.match(elsewhere.result, { content: [{ text: 'Still Ann.' }], structuredContent: { session } })
  t.equal(roles(await it.history(session)), 'user assistant user assistant user assistant')
  t.equal(roles(it.model.requests[2]?.body.messages), 'system user assistant user assistant user')
  t.strictSame((await it.store.verifyAudit()).problems, [])
})

t.test('chat in a session that is not there is an error, and nothing is sent', async (t) => {
  const it = await inside(t, { turns: [{ text: 'Hello.' }] })
  const id = it.context.newSession()
  const { result } = await it.ask(id, 'chat', { message: 'hi' })
  const { session } = result.structuredContent
  for (const wrong of ['nowhere', '', session.slice(0, 4), `${session}x`, '%', '__proto__'])
    t.match(await it.ask(id, 'chat', { message: 'hi', session: wrong }), {
      result: { isError: true, content: [{ text: /there is no session/ }] },
    })
  t.match(await it.ask(id, 'chat', { message: '' }), {
    error: { code: -32602, message: /message/ },
  })
  t.match(await it.ask(id, 'chat', {}), { error: { code: -32602, message: /message/ } })
  t.match(await it.ask(id, 'chat', { message: 'x', max_steps: 0 }), {
    error: { code: -32602, message: /max_steps/ },
  })
  t.equal(it.model.requests.length, 1)
})

t.test('two chats at once never interleave', async (t) => {
  const slow = { calls: [{ name: 'shell_exec', args: { command: 'sleep 0.1' } }] }
  const turns = ({ body }: { body: Body }): ModelTurn =>
    body.messages.at(-1).role === 'user'
      ? slow
      : { text: `to ${body.messages.findLast((m: Body) => m.role === 'user').content}` }
  const it = await inside(t, { turns })
  const id = it.context.newSession()
  const begun = await it.ask(id, 'chat', { message: 'zero' })
  const { session } = begun.result.structuredContent
  const replies = await Promise.all([
    it.ask(id, 'chat', { message: 'one' }),
    it.ask(id, 'chat', { message: 'two' }),
    it.ask(it.context.newSession(), 'chat', { message: 'three', session }),
    it.ask(it.context.newSession(), 'chat', { message: 'four', session }),
  ])
  t.strictSame(
    replies.map(({ result }) => result.content[0].text),
    ['to one', 'to two', 'to three', 'to four'],
  )
  const turn = 'user assistant tool assistant'
  t.equal(roles(await it.history(session)), Array(5).fill(turn).join(' '))
})

t.test('a profile counts when a session begins, and never allows more', async (t) => {
  const turns = ({ body }: { body: Body }): ModelTurn =>
    body.messages.at(-1).role === 'user'
      ? { calls: [{ name: 'write_file', args: { path: 'made', content: 'x' } }] }
      : { text: body.messages.at(-1).content }
  const it = await inside(t, { turns })
  const plain = { prompt: undefined, model: undefined, tools: undefined, mode: undefined }
  await it.store.saveProfile({
    ...plain,
    name: 'careful',
    prompt: 'Be careful.',
    mode: 'read-only',
  })
  await it.store.saveProfile({
    ...plain,
    name: 'small',
    tools: ['time_now'],
  })
  const id = it.context.newSession()
  const { result } = await it.ask(id, 'chat', { message: 'go', profile: 'careful' })
  const { session } = result.structuredContent
  t.match(result.content[0].text, /mode read-only changes nothing/)
  t.match(told(it.model, 0), /Be careful/)
  await it.ask(id, 'chat', { message: 'go', profile: 'small', session })
  t.match(told(it.model, 2), /Be careful/, 'it stays with the session')
  const small = await it.ask(it.context.newSession(), 'chat', { message: 'go', profile: 'small' })
  t.match(small.result, { isError: undefined })
  t.strictSame(
    it.model.requests.at(-1)?.body.tools.map((tool: Body) => tool.function.name),
    ['time_now'],
  )
  const unknown = await it.ask(it.context.newSession(), 'chat', {
    message: 'go',
    profile: 'nobody',
  })
  t.match(unknown.result, { isError: true, content: [{ text: /there is no profile nobody/ }] })
  t.match(
    await it.ask(id, 'write_file', { path: 'made', content: 'x' }),
    { result: {} },
    'the tools themselves are as before',
  )
})

t.test('a chat without an answer is an error with what there was of it', async (t) => {
  const call = { text: 'Let me see.', calls: [{ name: 'time_now', args: {} }] }
  const it = await inside(t, {
    turns: [call, call, call, { status: 401, body: '{"error":{"message":"no credit"}}' }],
  })
  const limited = await it.ask(it.context.newSession(), 'chat', { message: 'go', max_steps: 2 })
  t.match(limited.result, {
    isError: true,
    content: [{ text: /^Let me see\.[\s\S]*no answer after 2 steps/ }],
    structuredContent: { steps: 2, exit: 4, error: { code: 4 } },
  })
  const id = it.context.newSession()
  const failed = await it.ask(id, 'chat', { message: 'go' })
  t.match(failed.result, {
    isError: true,
    content: [{ text: /^Let me see\.\n\n[\s\S]*no credit/ }],
  })
  const { session } = failed.result.structuredContent
  it.model.push({ text: 'Here.' })
  t.match((await it.ask(id, 'chat', { message: 'again' })).result.content, [{ text: 'Here.' }])
  t.equal(roles(await it.history(session)), 'user assistant tool user assistant')
  const none = await inside(t, {
    env: { TAI_MODEL: 'nobody/none', OPENAI_API_KEY: '', OPENAI_BASE_URL: '' },
  })
  t.match((await none.ask(none.context.newSession(), 'chat', { message: 'x' })).result, {
    isError: true,
  })
})

t.test('nobody is there to be asked', async (t) => {
  const question = { calls: [{ name: 'ask_user', args: { question: 'Really?' } }] }
  const it = await inside(t, {
    turns: [question, { text: 'I could not ask.' }],
    args: ['--permission-mode', 'prompt'],
  })
  const id = it.context.newSession()
  t.match(await it.ask(id, 'chat', { message: 'go' }), {
    result: { content: [{ text: 'I could not ask.' }] },
  })
  const own = await it.ask(id, 'ask_user', { question: 'Really?' })
  t.match(own.result ?? own.error, own.result ? { isError: true } : { code: -32001 })
  t.match(it.model.requests[1]?.body.messages.at(-1), { role: 'tool' })
  t.comment(it.model.requests[1]?.body.messages.at(-1).content)
})

t.test('a secret reaches neither the model nor the client', async (t) => {
  const secret = 'hunter2-the-planted-value'
  const turns = [
    { calls: [{ name: 'shell_exec', args: { command: 'cat plan; echo "$PLANTED_TOKEN"; env' } }] },
    { text: `I will not say ${secret}` },
    { text: `nor here: ${secret}` },
  ]
  const it = await inside(t, { turns, env: { PLANTED_TOKEN: `${secret}-2` } })
  await it.store.secrets.set('PLANTED', secret)
  const id = it.context.newSession()
  await it.ask(id, 'shell_exec', { command: `echo hunter2-the-"planted"-value > plan` })
  const chat = await it.ask(id, 'chat', { message: `use ${secret} and ${KEY}` })
  const complete = await it.ask(id, 'completions', {
    messages: [{ role: 'user', content: `say ${secret} ${KEY}` }],
  })
  const seen = JSON.stringify([chat, complete, it.model.requests.map(({ body }) => body)])
  t.notMatch(seen, secret)
  t.notMatch(seen, KEY)
  t.match(told(it.model, 0), /use \[redacted:PLANTED\] and \[redacted:mcp-key\]/)
  const rows = it.store.db.all<{ message_json: string }>('SELECT message_json FROM messages')
  t.notMatch(JSON.stringify(rows), /hunter2|k3y-/)
  const audit = it.store.db.all('SELECT * FROM audit')
  t.notMatch(JSON.stringify(audit), /hunter2|k3y-/)
})

t.test('completions is one request: no tools, nothing kept', async (t) => {
  const it = await inside(t, {
    turns: [
      { text: 'four', usage: { input: 7, output: 1 } },
      { status: 400, body: '{"error":{"message":"bad idea"}}' },
    ],
  })
  const id = it.context.newSession()
  const messages = [
    { role: 'system', content: 'Be short.' },
    { role: 'user', content: '1+1?' },
    { role: 'assistant', content: 'two' },
    { role: 'user', content: '2+2?' },
  ]
  t.match(await it.ask(id, 'completions', { messages }), {
    result: {
      content: [{ text: 'four' }],
      structuredContent: { model: 'openai/fake-model', usage: { input: 7, output: 1 } },
    },
  })
  const [request] = it.model.requests
  t.strictSame(request?.body.messages, messages)
  t.equal(request?.body.tools, undefined)
  t.strictSame(await it.store.listSessions({ limit: 9 }), [])
  t.match(await it.ask(id, 'completions', { messages }), {
    result: { isError: true, content: [{ text: /bad idea/ }] },
  })
  const wrong: [Body, RegExp][] = [
    [[], /messages/],
    [[{ role: 'tool', content: 'x' }], /messages\/0\/role/],
    [[{ role: 'user' }], /messages\/0/],
    [[{ role: 'user', content: [{ type: 'text', text: 'x' }] }], /messages\/0\/content/],
    [[{ role: 'user', content: 'x', name: 'y' }], /messages\/0/],
    ['hi', /messages/],
  ]
  for (const [given, words] of wrong)
    t.match(await it.ask(id, 'completions', { messages: given }), {
      error: { code: -32602, message: words },
    })
  t.equal(it.model.requests.length, 2)
})

t.test('g13 F: a model slower than ten minutes ends the chat, not the session', async (t) => {
  const it = await inside(t, {
    turns: [stuck('I am th'), { text: 'Here.' }, stuck('x')],
    env: { TAI_STREAM_IDLE: '99999' },
  })
  const id = it.context.newSession()
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const slow = it.ask(id, 'chat', { message: 'go' })
  const { over } = await it.model.seen(1)
  await new Promise(setImmediate)
  mock.timers.tick(MCP_CHAT_TIMEOUT - 1)
  let isOver = false
  void slow.then(() => (isOver = true))
  await new Promise(setImmediate)
  t.equal(isOver, false)
  mock.timers.tick(1)
  t.match((await slow).result, { isError: true, content: [{ text: /no answer within 10 min/ }] })
  await over
  t.match((await it.ask(id, 'chat', { message: 'go' })).result.content, [{ text: 'Here.' }])
  const complete = it.ask(id, 'completions', { messages: [{ role: 'user', content: 'x' }] })
  await it.model.seen(3)
  await new Promise(setImmediate)
  mock.timers.tick(MCP_CHAT_TIMEOUT)
  t.match((await complete).result, { isError: true, content: [{ text: /no answer within/ }] })
})

t.test('a client that leaves a chat stops the request to the model', async (t) => {
  const model = await startModel([stuck('I am thinking'), { text: 'Here.' }])
  t.teardown(() => model.close())
  const server = await serveHere(t, { env: modelEnv(model) })
  const peer = await begin(server)
  const stop = new AbortController()
  const chat = peer.call('chat', { message: 'go' }, stop.signal)
  const { over } = await model.seen(1)
  stop.abort()
  await t.rejects(chat, { name: 'AbortError' })
  await over
  const next = await (await begin(server, peer.session)).call('chat', { message: 'again' })
  t.equal(textOf(next), 'Here.')
  t.match(told(model, 1), /again/)
})

t.test('the server in this process ends when it is told to', async (t) => {
  const server = await serveHere(t)
  t.match(await send(server, { body: { jsonrpc: '2.0', id: 1, method: 'ping' } }), { status: 200 })
  server.stop.abort(new Error('enough'))
  t.equal(await server.done, 0)
  await t.rejects(send(server), { code: 'ECONNREFUSED' })
  t.equal((await tai(['audit', 'verify'], { env: { TAI_HOME: server.home } })).code, 0)
})
