import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  Approvals,
  SELF_TOOLS,
  wordsOf,
  type JsonObject,
  type Mode,
  type Prompter,
  type ToolContext,
} from '../tai.ts'
import { binary } from './fakes/binary.ts'
import { filled, openContext, row } from './fakes/bench.ts'
import { startModel, type ModelTurn, type SeenRequest } from './fakes/model.ts'
import { runMain } from './fakes/outside.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { begin, serveHere, textOf } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'
import { openWorld, person } from './fakes/world.ts'

const never = new AbortController().signal
const VALUE = 's3cret-Value-0123456789'

const use = async (context: ToolContext, name: string, args: JsonObject = {}) =>
  (await row(name).run(filled(name, args), context, never)).text

const linesOf = async (context: ToolContext, name: string, args?: JsonObject) =>
  (await use(context, name, args)).split('\n').map((line) => JSON.parse(line))

/** With the session s1, in which the tools are called. */
async function open(t: Test, wishes: Parameters<typeof openContext>[1] = {}, mode?: Mode) {
  const context = await openContext(t, wishes)
  const { store, world, prompter } = context
  const begun = { title: 'The first', profile: 'default', model: 'openai/m' }
  await store.createSession({ id: 's1', ...begun, workspace: world.cwd })
  if (!mode) return context
  const approvals = new Approvals({ mode, store, prompter, world, root: world.cwd })
  return { ...context, approvals }
}

const plain = { prompt: undefined, model: undefined, tools: undefined, mode: undefined }

t.test('the tools of this section', async (t) => {
  t.strictSame(
    SELF_TOOLS.map(({ name }) => name),
    [
      ['secret_list', 'secret_request', 'session_list', 'session_read'],
      ['profile_list', 'profile_switch', 'model_list', 'model_switch'],
      ['config_get', 'config_set', 'audit_search'],
    ].flat(),
  )
})

t.test('a message in words', async (t) => {
  const image = { kind: 'image', mime: 'image/png', base64: 'AAAA' } as const
  const parts = [{ kind: 'text', text: 'Look:' } as const, image]
  t.equal(wordsOf({ role: 'user', parts }), 'Look:\n[image/png image]')
  const call = { id: '1', name: 'tree', args: { path: '.' } }
  t.equal(
    wordsOf({ role: 'assistant', text: '', calls: [call], state: 'complete' }),
    '[calls tree {"path":"."}]',
  )
})

t.test('secrets are listed by name and time, never by value', async (t) => {
  const context = await open(t)
  t.equal(await use(context, 'secret_list'), 'no secrets')
  await context.store.secrets.set('A_KEY', VALUE)
  const time = '2026-01-31T12:00:00.000Z'
  t.strictSame(await linesOf(context, 'secret_list'), [
    { name: 'A_KEY', created: time, updated: time },
  ])
})

t.test('a secret is typed by the person, unseen by the model and by the screen', async (t) => {
  const asked: [string, object][] = []
  const answers = [`${VALUE}\n`, 'another-Value-1', '', undefined]
  const prompter: Prompter = {
    available: true,
    choose: async () => 'y',
    ask: async (question, options) => {
      asked.push([question, options])
      return answers.shift()
    },
  }
  const context = await open(t, { prompter })
  const { store } = context
  const args = { name: 'A_KEY', reason: 'to call\n\u001b[2Jthe API' }
  t.equal(await use(context, 'secret_request', args), 'stored A_KEY')
  t.equal(await store.secrets.get('A_KEY'), VALUE)
  t.equal(store.redactor.redact(`is ${VALUE}`), 'is [redacted:A_KEY]')
  t.match(asked[0]?.[0], /A_KEY[^]*\n {2}\| to call\n {2}\| \\e\[2Jthe API\nA_KEY:$/)
  t.strictSame(asked[0]?.[1], { secret: true })
  t.notMatch(asked[0]?.[0], /in place/)
  await use(context, 'secret_request', args)
  t.match(asked[1]?.[0], /A_KEY \(in place of the stored one\):$/)
  t.equal(await store.secrets.get('A_KEY'), 'another-Value-1')
  for (const _ of answers)
    await t.rejects(use(context, 'secret_request', args), { message: /typed nothing/ })
  t.equal(await store.secrets.get('A_KEY'), 'another-Value-1', 'no answer changes nothing')
})

t.test('where nobody can type, a secret is not asked for', async (t) => {
  const context = await open(t)
  await t.rejects(use(context, 'secret_request', { name: 'A_KEY', reason: 'r' }), {
    message: /nobody can type/,
    hint: /tai secret set A_KEY/,
  })
  const w = await openWorld({ prompter: person(VALUE) })
  t.teardown(w.close)
  const wrong = await w.tools.dispatch('secret_request', { name: 'A B', reason: 'r' }, never)
  t.match(wrong, { why: 'invalid' })
  const said = await w.tools.dispatch('secret_request', { name: 'A_B', reason: 'r' }, never)
  t.notMatch(JSON.stringify([said, await w.store.listAudit({ limit: 9 })]), VALUE)
  t.equal(await w.store.secrets.get('A_B'), VALUE)
})

t.test('sessions are found by words and read in parts', async (t) => {
  const context = await open(t)
  const { store } = context
  const say = (text: string) => ({ role: 'user', parts: [{ kind: 'text', text }] }) as const
  await store.createSession({ id: 's2', title: 'Other', profile: 'p', model: 'm', workspace: '/' })
  for (let i = 1; i <= 3; i++) await store.appendMessage('s1', say(`zebra ${i}`))
  await store.appendMessage('s1', {
    role: 'assistant',
    text: 'I look.',
    calls: [{ id: '1', name: 'read_file', args: { path: 'a' } }],
    state: 'complete',
  })
  const reply = { role: 'tool', id: '1', name: 'read_file', isError: false } as const
  await store.appendMessage('s1', { ...reply, text: 'A line.' })
  const all = await linesOf(context, 'session_list')
  t.strictSame(all.map(({ id }) => id).toSorted(), ['s1', 's2'])
  const [found, ...others] = await linesOf(context, 'session_list', { query: 'zebra' })
  t.strictSame(others, [])
  t.match(found, { id: 's1', title: 'The first', profile: 'default', messages: 5 })
  t.equal(found.updated, '2026-01-31T12:00:00.000Z')
  t.equal(await use(context, 'session_list', { query: 'giraffe' }), 'no sessions')
  t.equal((await linesOf(context, 'session_list', { query: ' ', limit: 1 })).length, 1)
  const read = (args: JsonObject) => use(context, 'session_read', { id: 's1', ...args })
  t.equal(
    await read({}),
    `[5 of 5 messages]

[1] user: zebra 1

[2] user: zebra 2

[3] user: zebra 3

[4] assistant: I look.
[calls read_file {"path":"a"}]

[5] tool: A line.`,
  )
  t.equal(
    await read({ offset: 1, limit: 1 }),
    '[1 of 5 messages; read on with offset 2]\n\n[2] user: zebra 2',
  )
  t.equal(await read({ offset: 99 }), '[0 of 5 messages]')
  const missing = { message: 'there is no session zz', hint: 'session_list shows them' }
  await t.rejects(read({ id: 'zz' }), missing)
})

t.test('profiles are listed with what they use', async (t) => {
  const context = await open(t)
  t.strictSame(await linesOf(context, 'profile_list'), [
    { name: 'default', current: true, created: 0, servers: [] },
  ])
  const prompt = 'p'.repeat(200)
  await context.store.saveProfile({
    ...plain,
    name: 'deep',
    prompt,
    mode: 'allow',
    tools: ['tree'],
  })
  const [, deep] = await linesOf(context, 'profile_list')
  t.match(deep, { name: 'deep', current: false, mode: 'allow', tools: ['tree'], servers: [] })
  await context.store.saveProfile({ ...plain, name: 'default', model: 'm' })
  t.match((await linesOf(context, 'profile_list'))[1], { name: 'default', model: 'm' })
  t.match(deep.prompt, /^p{80}… \(120 more/)
})

t.test('a switch to a wider profile is refused', async (t) => {
  const context = await open(t, {}, 'workspace-write')
  const { store } = context
  const held = async () => (await store.findSession('s1'))?.switched
  for (const mode of ['read-only', 'workspace-write', 'prompt', 'danger-full-access'] as const)
    await store.saveProfile({ ...plain, name: mode, mode })
  // Without one of its own, a profile has the mode of the settings, which is prompt.
  for (const name of ['prompt', 'danger-full-access', 'default'])
    await t.rejects(use(context, 'profile_switch', { name }), {
      message: `its mode ${name.replace('default', 'prompt')} is wider than workspace-write`,
    })
  const missing = { message: 'there is no profile nobody', hint: 'profile_list shows them' }
  await t.rejects(use(context, 'profile_switch', { name: 'nobody' }), missing)
  t.equal(await held(), undefined)
  for (const name of ['workspace-write', 'read-only']) {
    const said = await use(context, 'profile_switch', { name })
    t.equal(said, `profile ${name} from the next turn on`)
    t.strictSame(await held(), { profile: name })
    t.match(await store.findSession('s1'), { profile: name })
  }
})

t.test('models of all providers that are set up; one that fails is named', async (t) => {
  const models = [{ id: 'big', context_length: 9_000 }, 'bare']
  const server = await startModel([], { models })
  t.teardown(() => server.close())
  const OPENAI_BASE_URL = `${server.url}/v1`
  const env = { OPENAI_BASE_URL, ANTHROPIC_BASE_URL: 'http://127.0.0.1:1' }
  const context = await open(t, { env })
  const own = [
    { id: 'big', provider: 'openai', window: 9_000 },
    { id: 'bare', provider: 'openai' },
  ]
  const all = await linesOf(context, 'model_list')
  const ofOthers = /^(ollama|lmstudio|llamacpp|vllm)$/ // of this machine, if they run
  const told = all.filter(({ provider }) => !ofOthers.test(provider))
  t.strictSame(told.slice(0, 2), own)
  t.match(told[2], { provider: 'anthropic', failed: /^anthropic: cannot reach 127/ })
  t.equal(told.length, 3, 'what is not set up is left out')
  t.strictSame(await linesOf(context, 'model_list', { provider: 'openai' }), own)
  const [unset] = await linesOf(context, 'model_list', { provider: 'groq' })
  t.match(unset, { provider: 'groq', failed: /no key for groq/ })
  await t.rejects(use(context, 'model_list', { provider: 'grok' }), {
    message: /there is no provider grok/,
  })
  await context.store.secrets.set('OPENAI_API_KEY', VALUE)
  await use(context, 'model_list', { provider: 'openai' })
  t.notMatch(JSON.stringify(server.requests), VALUE, 'a key of the vault goes to no other address')
})

t.test('a model that its provider does not list is refused', async (t) => {
  const server = await startModel([], { models: ['alpha-2026-01-01', 'models/beta'] })
  t.teardown(() => server.close())
  const context = await open(t, { env: { OPENAI_BASE_URL: `${server.url}/v1` } })
  const held = async () => (await context.store.findSession('s1'))?.switched?.model
  for (const model of ['openai/alpha', 'openai/alpha-2026-01-01', 'beta']) {
    const name = `openai/${model.replace('openai/', '')}`
    t.equal(await use(context, 'model_switch', { model }), `${name} from the next turn on`)
    t.equal(await held(), name)
  }
  const wrong = { message: 'there is no model openai/models/bata', hint: 'model_list shows them' }
  await t.rejects(use(context, 'model_switch', { model: 'openai/models/bata' }), wrong)
  const unset = { message: /no key for groq/ }
  await t.rejects(use(context, 'model_switch', { model: 'groq/x' }), unset)
  t.equal(await held(), 'openai/beta')
  await t.rejects(use({ ...context, session: 'none' }, 'model_switch', { model: 'beta' }), {
    message: 'no chat has begun here',
    hint: /call chat first/,
  })
})

t.test('settings are told with their source and what it hides', async (t) => {
  const context = await open(t, { env: { TAI_MAX_STEPS: '7' } })
  t.strictSame(await linesOf(context, 'config_get', { key: 'max_steps' }), [
    {
      key: 'max_steps',
      value: '7',
      source: 'TAI_MAX_STEPS',
      shadows: ['50 (default)'],
    },
  ])
  t.ok((await linesOf(context, 'config_get')).length > 10)
  await t.rejects(use(context, 'config_get', { key: 'max_stepz' }), {
    message: /no setting/,
    hint: /config list/,
  })
})

t.test('a model sets what a project file may set, and nothing else', async (t) => {
  const env = { TAI_MAX_STEPS: '99' }
  const context = await open(t, { env })
  const { store } = context
  // biome-ignore format: a table
  const cases: [key: string, value: string | number | boolean | string[], stored: string | RegExp][] = [
    ['model', 'openai/x', 'openai/x'],
    ['context_window', 9000, '9000'],
    ['max_steps', 20, '20'],
    ['max_steps', 30, /a model may not set max_steps so/], // TAI_MAX_STEPS is for this run only
    ['max_steps', 10, '10'],
    ['max_cost', 1.5, '1.5'],
    ['max_cost', 2, /may not/],
    ['tools', ['tree', 'read_file'], 'tree,read_file'],
    ['tools', ['tree', 'shell_exec'], /may not/],
    ['permission_mode', 'read-only', /may not/],
    ['permission_mode', 'danger-full-access', /may not/],
    ['profile', 'x', /may not/],
    ['web_private', true, /may not/],
    ['web_search', 'http://evil.example', /may not/],
    ['mcp_bind', '0.0.0.0', /may not/],
    ['mcp_port', 1, /may not/],
    ['mcp_hosts', ['evil.example'], /may not/],
    ['mcp_resolver', 'http://evil.example', /may not/],
    ['providers', '{"x":{"base_url":"http://evil.example"}}', /may not/],
    ['context_window', 'wide', /context_window is "wide", not a whole number/],
    ['colour', 'red', /there is no setting colour/],
  ]
  for (const [key, value, wanted] of cases) {
    const before = await store.getSettings()
    const setting = use(context, 'config_set', { key, value })
    if (typeof wanted !== 'string') await t.rejects(setting, { message: wanted }, `${key} ${value}`)
    else t.match(await setting, `${key} is set for the next run`)
    const after = typeof wanted === 'string' ? { ...before, [key]: wanted } : before
    t.strictSame(await store.getSettings(), after)
  }
})

t.test('a model lists tools that there are, and never more than it was left', async (t) => {
  const w = await openWorld({ mode: 'danger-full-access' })
  t.teardown(w.close)
  const set = async (...value: string[]) => {
    const ended = await w.tools.dispatch('config_set', { key: 'tools', value }, never)
    return ended.output.text
  }
  t.match(await set('grep', 'zzz'), /no tool zzz\n.*select_tools/)
  await w.store.saveProfile({ name: 'default', tools: ['glob', 'grep'] })
  t.match(await set('shell_exec'), /a model may not set tools so/, 'wider than its profile')
  t.match(await set('grep'), /is set/)
  await w.store.setSetting('tools', '')
  t.match(await set('grep'), /a model may not set tools so/, 'none are left')
  t.match(await set(), /is set/)
  t.strictSame(await w.store.getSettings(), { tools: '' })
})

t.test('the audit is searched by kind, tool, server and time', async (t) => {
  const context = await open(t)
  const { store } = context
  await store.audit('tool-call', { tool: 'tree', outcome: 'ok' }, 's1')
  await store.audit('approval', { tool: 'tree', verdict: 'deny' })
  await store.audit('mcp-call', { tool: 'ping', server: 'github' })
  const found = async (args: JsonObject) =>
    (await linesOf(context, 'audit_search', args)).map(({ kind }) => kind)
  t.strictSame(await found({}), ['mcp-call', 'approval', 'tool-call'])
  t.strictSame(await found({ limit: 1 }), ['mcp-call'])
  t.strictSame(await found({ kind: 'approval' }), ['approval'])
  t.strictSame(await found({ tool: 'tree' }), ['approval', 'tool-call'])
  t.strictSame(await found({ server: 'github' }), ['mcp-call'])
  t.strictSame(await found({ since: '2026-01-31T12:00:00Z', kind: 'approval' }), ['approval'])
  t.equal(await use(context, 'audit_search', { since: '2026-01-31T12:00:01Z' }), 'no such entries')
  t.strictSame(await linesOf(context, 'audit_search', { kind: 'tool-call' }), [
    {
      ts: '2026-01-31T12:00:00.000Z',
      kind: 'tool-call',
      session: 's1',
      data: { tool: 'tree', outcome: 'ok' },
    },
  ])
  const w = await openWorld()
  t.teardown(w.close)
  const wrong = await w.tools.dispatch('audit_search', { since: 'yesterday' }, never)
  t.match(wrong, { why: 'invalid', output: { text: /since/ } })
})

/** Calls the tool that the prompt names, and says how it went. */
function obey({ body }: SeenRequest): ModelTurn {
  const { role, content } = body.messages.at(-1)
  const [, name, args] = (role === 'user' && /^call (\w+) (.*)$/.exec(content)) || []
  if (name) return { calls: [{ name, args: JSON.parse(args ?? '') }] }
  return { text: role === 'tool' ? content : `by ${body.model}` }
}

/** A model server, and a home where it is the usual one. */
async function setUp(t: Test) {
  const server = await startModel(obey, { models: ['fake-model', 'other'] })
  t.teardown(() => server.close())
  const { TAI_MODEL, ...env } = modelEnv(server)
  const at = { home: folder(), env }
  await runMain(['config', 'set', 'model', TAI_MODEL], at)
  const say = async (...argv: string[]) => (await runMain(argv, at)).out.trim()
  return { server, at, say }
}

t.test('another model answers in its session from the next turn on, until a flag', async (t) => {
  const { say, server, at } = await setUp(t)
  const call = 'call model_switch {"model":"openai/other"}'
  t.equal(await say(call), 'openai/other from the next turn on')
  t.equal(server.requests.at(-1)?.body.model, 'fake-model', 'the turn itself ends as it began')
  t.equal(await say('-c', 'go on'), 'by other')
  t.match(await say('session', 'list'), /openai\/other/)
  t.equal(await say('-c', '-m', 'openai/fake-model', 'go on'), 'by fake-model')
  t.equal(await say('-c', 'go on'), 'by other')
  t.equal(
    (await runMain(['-c', 'x'], { ...at, env: { ...at.env, TAI_MODEL: 'openai/fake-model' } })).out,
    'by other\n',
  )
  t.equal(await say('a new session'), 'by fake-model')
})

t.test('another profile counts from the next turn on, and is never looser', async (t) => {
  const { say, server } = await setUp(t)
  const write = (name: string) => `call write_file {"path":"${name}","content":"x"}`
  const go = (name: string) => `call profile_switch {"name":"${name}"}`
  const told = () => server.requests.at(-1)?.body.messages[0].content
  await say('profile', 'create', 'pirate', '-s', 'Be a pirate.', '-m', 'openai/other')
  await say('profile', 'create', 'broken', '-m', 'openai/gone')
  await say('profile', 'create', 'careful', '--permission-mode', 'read-only')
  await say('profile', 'create', 'bold', '--permission-mode', 'allow')
  t.match(await say(go('bold')), /its mode allow is wider than prompt/)
  t.match(await say('-c', go('broken')), /there is no model openai\/gone/)
  t.equal(await say('-c', 'hi'), 'by fake-model', 'what is refused changes nothing')
  t.equal(await say('-c', go('pirate')), 'profile pirate from the next turn on')
  t.equal(await say('-c', 'hi'), 'by other')
  t.match(told(), /^Be a pirate\./)
  t.equal(await say('-c', '-P', 'default', 'hi'), 'by fake-model')
  t.match(await say('--auto', go('bold')), /profile bold/, 'a flag is the word of a person')
  t.match(
    await say('-c', 'call shell_exec {"command":"touch a"}'),
    /needs an approval/,
    'of one run',
  )
  await say('-c', go('careful'))
  t.match(await say('-c', write('a.txt')), /read-only changes nothing/)
  t.match(await say('-c', go('default')), /read-only changes nothing/)
  t.notMatch(await say('-c', '--permission-mode', 'prompt', write('a.txt')), /changes nothing/)
  t.match(await say('-c', write('b.txt')), /read-only changes nothing/)
})

t.test('what settings hold of passwords is masked', async (t) => {
  const { say, at } = await setUp(t)
  const table = '[providers.mine]\nbase_url = "http://me:hunter2222@127.0.0.1:1/v1"\n'
  writeFileSync(join(at.home, '.tai', 'config.toml'), table)
  const told = await say('call config_get {"key":"providers"}')
  t.match(told, /http:\/\/me:\[redacted:url-password\]@127/)
})

t.test(
  'the running chat follows',
  { skip: !ptyAvailable && 'no pseudo-terminals here' },
  async (t) => {
    const { at, server } = await setUp(t)
    const env = { ...at.env, HOME: at.home, TAI_HOME: `${at.home}/.tai`, NO_COLOR: '1' }
    const call = 'call model_switch {"model":"openai/other"}\r'
    const begin = 'call process_start {"command":"sleep 30"}\r'
    const run = await runInPty(
      `${await binary()} --auto -m openai/fake-model`,
      [
        { wait: /leaves\.[^]*> /, type: begin },
        { wait: /\bp1\b|started[^]*> /, type: call },
        { wait: /openai\/other from the next turn on[^]*> /, type: '/session\r' },
        { wait: /openai\/other[^]*> /, type: 'hi\r' },
        { wait: /by other[^]*> /, type: 'call process_list {}\r' },
        { wait: /sleep 30[^]*> /, type: `call secret_request {"name":"A_KEY","reason":"r"}\r` },
        { wait: /A_KEY:/, type: `${VALUE}\r` },
        { wait: /stored A_KEY[^]*> /, type: '/exit\r' },
      ],
      { env, cwd: at.home },
    )
    t.equal(run.code, 0)
    t.equal(server.requests.at(-1)?.body.model, 'other')
    t.notMatch(
      run.output + JSON.stringify(server.requests),
      VALUE,
      'a secret is neither shown nor sent',
    )
    const listed = await runMain(['secret', 'list'], { ...at, env })
    t.match(listed.out, /A_KEY/)
  },
)

t.test('a served chat follows, with tools no looser than before', async (t) => {
  const { at } = await setUp(t)
  await runMain(['profile', 'create', 'tight', '--permission-mode', 'read-only'], at)
  await runMain(['profile', 'create', 'held', '--permission-mode', 'workspace-write'], at)
  const peer = await begin(await serveHere(t, at))
  const model = { model: 'openai/other' }
  t.match(textOf(await peer.call('model_switch', model)), /no chat has begun.*\n.*call chat first/)
  const chat = async (message: string, profile = 'held') =>
    textOf(await peer.call('chat', { message, profile }))
  t.equal(await chat('hi'), 'by fake-model')
  t.match(textOf(await peer.call('model_switch', model)), /from the next turn on/)
  t.equal(await chat('hi'), 'by other')
  const shell = 'call shell_exec {"command":"id"}'
  t.match(await chat(shell), /workspace-write changes only files/)
  t.match(
    await chat('call profile_switch {"name":"default"}'),
    /prompt is wider than workspace-write/,
  )
  t.match(await chat(shell), /workspace-write changes only files/)
  t.match(await chat('call profile_switch {"name":"tight"}'), /^profile tight from/)
  t.equal(await chat('hi'), 'by fake-model', 'a profile brings its own model, or the usual one')
  t.match(await chat('call write_file {"path":"a","content":"x"}'), /read-only changes nothing/)
  const secret = { name: 'A_KEY', reason: 'r' }
  t.match((await peer.call('secret_request', secret)).body.result, {
    isError: true,
    content: [{ text: /nobody can type a secret here/ }],
  })
})
