import t from 'tap'
import {
  App,
  chosenModel,
  converse,
  Given,
  LimitError,
  ModelError,
  oneShot,
  playTurn,
  openConversation,
  openTools,
  Processes,
  titleOf,
  Workspace,
  type Conversation,
  type Part,
} from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { outsideOf, runMain, type Settings } from './fakes/outside.ts'
import { folder } from './fakes/tai.ts'

const say = (text: string): Part[] => [{ kind: 'text', text }]

function openApp(settings: Settings, flags: Record<string, string> = {}) {
  const outside = outsideOf(settings)
  return {
    ...outside,
    app: new App({
      ...outside,
      given: new Given(new Map(Object.entries(flags).map(([name, value]) => [name, [value]]))),
    }),
  }
}

t.test('a session is called by the last line of its first prompt', async (t) => {
  const cases: [Part[], string][] = [
    [say('fix the bug'), 'fix the bug'],
    [say('diff\n+a\n\nwrite a commit message\n'), 'write a commit message'],
    [say('\u001b[2Jx'), '\\e[2Jx'],
    [say('y'.repeat(100)), `${'y'.repeat(60)}… (40 more characters)`],
    [[{ kind: 'image', mime: 'image/png', base64: '' }], ''],
  ]
  for (const [parts, title] of cases) t.equal(titleOf(openApp({}).app, parts), title)
})

t.test('a profile yields to flags and environment, and outranks files', async (t) => {
  const model = await startModel([{ text: 'a' }, { text: 'b' }])
  t.teardown(() => model.close())
  const home = folder()
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'k' }
  await runMain(
    [
      'profile',
      'create',
      'pirate',
      '-m',
      'openai/from-profile',
      '-s',
      'Be a pirate.',
      '--tools',
      'read_file',
    ],
    { home },
  )
  await runMain(['config', 'set', 'model', 'openai/from-config'], { home })
  const first = openApp({ home, env }, { profile: 'pirate' })
  t.equal((await chosenModel(first.app)).model, 'from-profile')
  await oneShot(first.app, async () => say('hi'))
  await first.app.close()
  const body = model.requests[0]?.body
  t.equal(body.model, 'from-profile')
  t.match(body.messages[0].content, /^Be a pirate\./)
  t.strictSame(
    body.tools.map((row: { function: { name: string } }) => row.function.name),
    ['read_file'],
  )
  const second = openApp(
    { home, env: { ...env, TAI_MODEL: 'openai/from-env' } },
    { profile: 'pirate', 'no-tools': 'true' },
  )
  await oneShot(second.app, async () => say('hi'))
  await second.app.close()
  t.equal(model.requests[1]?.body.model, 'from-env')
  t.equal(model.requests[1]?.body.tools, undefined)
  t.match(await runMain(['-P', 'nobody', 'hi'], { home, env }), {
    code: 2,
    err: /no profile nobody\n.*tai profile list/,
  })
})

t.test('a conversation that goes on has its earlier messages', async (t) => {
  const model = await startModel([{ text: 'Ada.' }, { text: 'Still Ada.' }])
  t.teardown(() => model.close())
  const home = folder()
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'k', TAI_MODEL: 'openai/m' }
  const first = openApp({ home, env }, { 'no-tools': 'true' })
  const conversation: Conversation = await openConversation(first.app, 'who?')
  t.equal(await playTurn(first.app, conversation, say('who am I?'), first.signal), undefined)
  await first.app.close()
  t.equal(first.out.text, 'Ada.\n')
  const second = openApp(
    { home, env },
    { 'no-tools': 'true', resume: conversation.session.slice(0, 6) },
  )
  await oneShot(second.app, async () => say('and now?'))
  await second.app.close()
  t.strictSame(
    model.requests[1]?.body.messages.map((m: { role: string }) => m.role),
    ['system', 'user', 'assistant', 'user'],
  )
  t.match(await runMain(['-r', 'zzzz', 'hi'], { home, env }), { code: 2, err: /no session zzzz/ })
})

t.test(
  'a conversation is put together from a session, a model and tools of any mode',
  async (t) => {
    const write = { calls: [{ name: 'write_file', args: { path: 'a', content: 'x' } }] }
    const model = await startModel([write, { text: 'I may not.' }])
    t.teardown(() => model.close())
    const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'k', TAI_MODEL: 'openai/m' }
    const { app, signal, world } = openApp({ env })
    const store = await app.store()
    const begun = { title: 't', profile: 'default', model: 'm', workspace: world.cwd }
    const session = await store.createSession(begun)
    const tools = await openTools(app, {
      session,
      workspace: new Workspace(world.cwd, world.home),
      mode: 'read-only',
      profile: 'default',
      processes: new Processes(world, store.redactor),
      only: ['write_file', 'read_file'],
    })
    t.strictSame(
      tools.offered.map(({ name }) => name),
      ['write_file', 'read_file'],
    )
    const talk = await converse(app, { session, tools: () => tools, maxSteps: 1 })
    t.ok((await playTurn(app, talk, say('write'), signal)) instanceof LimitError)
    t.match((await store.messages(session)).at(-1), {
      message: { text: /read-only changes nothing/ },
    })
    const again = await converse(app, { session })
    t.equal(await playTurn(app, again, say('and?'), signal), undefined)
    t.equal(model.requests[1]?.body.messages.length, 5, 'it goes on with what was said')
    await app.close()
  },
)

t.test('a secret that the prompt holds is not sent, and the person is told', async (t) => {
  const model = await startModel([{ text: 'ok' }])
  t.teardown(() => model.close())
  const env = {
    OPENAI_BASE_URL: `${model.url}/v1`,
    OPENAI_API_KEY: 'k',
    TAI_MODEL: 'openai/m',
    DB_PASSWORD: 'hunter2-secret',
  }
  const { app, err } = openApp({ env }, { 'no-tools': 'true' })
  await oneShot(app, async () => say('why does hunter2-secret not work?'))
  await app.close()
  t.match(JSON.stringify(model.requests[0]?.body.messages), 'redacted:DB_PASSWORD')
  t.notMatch(JSON.stringify(model.requests[0]?.body), 'hunter2-secret')
  t.match(err.text, /known secret/)
})

t.test('a turn that could not begin has its object too', async (t) => {
  const { app, out } = openApp({}, { json: 'true' })
  const fail = () => Promise.reject(new ModelError('no model', { hint: 'set one up' }))
  await t.rejects(oneShot(app, fail), { message: 'no model' })
  t.match(JSON.parse(out.text), {
    answer: '',
    exit: 3,
    error: { message: 'no model', hint: 'set one up', code: 3 },
  })
  await t.rejects(oneShot(openApp({}).app, fail))
})
