import { once } from 'node:events'
import * as net from 'node:net'
import t from 'tap'
import {
  chooseModel,
  endpointOf,
  HttpClient,
  listModels,
  PROVIDERS,
  providersOf,
  TaiError,
  type ChooseOptions,
  type Endpoint,
  type ModelChoice,
  type Provider,
} from '../tai.ts'
import { startModel } from './fakes/model.ts'

const http = new HttpClient({})
t.teardown(() => http.close())

const NO_LOCAL = PROVIDERS.filter((row) => row.keys.length > 0)
const choose = (options: Partial<ChooseOptions>) =>
  chooseModel({
    asked: undefined,
    providers: NO_LOCAL,
    env: {},
    secret: async () => undefined,
    http,
    ...options,
  })
const named = ({ provider, model }: ModelChoice) => `${provider.name} ${model}`

t.test('the model is the one asked for, else the first that is set up', async (t) => {
  const [anthropic, groq] = [{ ANTHROPIC_API_KEY: 'a' }, { GROQ_API_KEY: 'g' }]
  const rows: [string, string | undefined, ChooseOptions['env'], string][] = [
    ['a key', undefined, anthropic, 'anthropic claude-sonnet-4-5'],
    [
      'two keys: the order of the rows',
      undefined,
      { ...groq, ...anthropic },
      'anthropic claude-sonnet-4-5',
    ],
    [
      'an empty key is none',
      undefined,
      { ...groq, ANTHROPIC_API_KEY: ' ' },
      'groq openai/gpt-oss-120b',
    ],
    ['provider and model', 'groq/qwen/qwen3', { ...groq, ...anthropic }, 'groq qwen/qwen3'],
    ['a provider alone', 'groq', { ...groq, ...anthropic }, 'groq openai/gpt-oss-120b'],
    ['a bare model', 'claude-opus-4-5', anthropic, 'anthropic claude-opus-4-5'],
    ['a slash without a provider', 'qwen/qwen3', groq, 'groq qwen/qwen3'],
    ['the second name of a key', undefined, { GOOGLE_API_KEY: 'k' }, 'gemini gemini-2.5-flash'],
  ]
  for (const [name, asked, env, wanted] of rows)
    t.equal(named(await choose({ asked, env })), wanted, name)
  const vault = await choose({ secret: async (name) => (name === 'XAI_API_KEY' ? 'x' : undefined) })
  t.equal(named(vault), 'xai grok-4')
  t.match(vault, { key: 'x', why: 'the vault holds XAI_API_KEY' })
})

t.test('a locked vault is asked only when the environment decides nothing', async (t) => {
  const secret = () => Promise.reject(new TaiError('the vault is locked'))
  const groq = await choose({ secret, env: { GROQ_API_KEY: 'g' } })
  t.equal(named(groq), 'groq openai/gpt-oss-120b', 'though a row before it might have a vault key')
  const moved = { OPENAI_BASE_URL: 'http://h:1/v1' }
  t.match(await choose({ secret, env: moved, asked: 'm' }), { model: 'm', key: undefined })
  await t.rejects(choose({ secret }), { message: 'the vault is locked' })
})

t.test('with nothing set up, three ways are shown', async (t) => {
  await t.rejects(choose({}), {
    message: 'no model is set up',
    hint: /_API_KEY.*\n.*ollama serve.*\n.*base_url/,
  })
  await t.rejects(choose({ asked: 'some-model' }), { message: 'no model is set up' })
  await t.rejects(choose({ asked: 'openai/gpt-5' }), {
    kind: 'refused',
    exitCode: 3,
    message: /OPENAI_API_KEY is not set/,
    hint: /tai secret set OPENAI_API_KEY/,
  })
})

t.test('another address works without a key, and its first chat model answers', async (t) => {
  const models = [
    'text-embedding-3',
    'whisper-1',
    'tts-1',
    'gpt-image-1',
    'omni-moderation',
    { id: 'good', max_model_len: 5000 },
  ]
  const server = await startModel([], { models })
  t.teardown(() => server.close())
  for (const slash of ['', '/']) {
    const choice = await choose({ env: { OPENAI_BASE_URL: `${server.url}/v1${slash}` } })
    t.match(choice, {
      model: 'good',
      key: undefined,
      window: 5000,
      why: /^OPENAI_BASE_URL is set; the first model/,
    })
    t.equal(endpointOf(choice, '/chat/completions').url, `${server.url}/v1/chat/completions`)
    t.notOk(choice.provider.refuses, 'an unknown server gets the older field')
  }
  for (const version of ['', '/v1', '/v1/']) {
    const choice = await choose({
      asked: 'anthropic/x',
      env: { ANTHROPIC_BASE_URL: server.url + version },
    })
    t.equal(endpointOf(choice, '/messages').url, `${server.url}/v1/messages`)
    t.strictSame(
      endpointOf(choice, '').headers,
      { 'anthropic-version': '2023-06-01' },
      'no key, no header',
    )
  }
  const none = await startModel([], { models: ['whisper-1'] })
  t.teardown(() => none.close())
  await t.rejects(choose({ env: { OPENAI_BASE_URL: none.url } }), {
    message: /lists no chat model/,
  })
  await t.rejects(choose({ env: { OPENAI_BASE_URL: 'localhost:1/v1' } }), {
    message: /OPENAI_BASE_URL is no http address/,
  })
  const official = { OPENAI_BASE_URL: 'https://api.openai.com/v1/', OPENAI_API_KEY: 'k' }
  t.equal(named(await choose({ env: official })), 'openai gpt-5', 'its own address changes nothing')
})

const local = (name: string, url: string): Provider => ({
  ...PROVIDERS.find((row) => row.name === 'ollama')!,
  name,
  baseUrl: url,
})

t.test('a local server is looked for last', async (t) => {
  const server = await startModel([], { models: ['nomic-embed', 'llama'] })
  const silent = net.createServer().listen(0, '127.0.0.1')
  t.teardown(() => Promise.all([server.close(), silent.close()]))
  await once(silent, 'listening')
  const port = (silent.address() as net.AddressInfo).port
  const providers = [
    ...NO_LOCAL,
    local('dead', 'http://127.0.0.1:1/v1'),
    local('mute', `http://127.0.0.1:${port}/v1`),
    local('live', `${server.url}/v1`),
  ]
  t.equal(named(await choose({ providers })), 'live llama')
  t.equal(named(await choose({ providers, asked: 'qwen' })), 'live qwen')
  t.equal(
    named(await choose({ providers, env: { GROQ_API_KEY: 'g' } })),
    'groq openai/gpt-oss-120b',
  )
  const reason = new Error('stop')
  await t.rejects(choose({ providers, signal: AbortSignal.abort(reason) }), reason)
})

t.test('tables of config.toml add rows and change them', async (t) => {
  const rows = providersOf({
    mine: { base_url: 'http://h:1/x/' },
    claude: { base_url: 'https://h', dialect: 'anthropic', key_env: 'MY_KEY', model: 'c' },
    groq: { model: 'other' },
    openai: { base_url: 'http://h:2/v1' },
  })
  t.equal(rows.length, PROVIDERS.length + 2)
  const at = (name: string): Endpoint => {
    const provider = rows.find((row) => row.name === name)!
    return { provider, key: 'k', why: '' }
  }
  t.equal(endpointOf(at('mine'), '/models').url, 'http://h:1/x/models')
  t.strictSame(endpointOf(at('mine'), '').headers, { authorization: 'Bearer k' })
  t.equal(endpointOf(at('claude'), '/messages').url, 'https://h/v1/messages')
  t.match(endpointOf(at('claude'), '').headers, { 'x-api-key': 'k' })
  t.equal(
    named(await choose({ providers: rows, asked: 'mine/a/b' })),
    'mine a/b',
    'its key is optional',
  )
  t.equal(
    named(await choose({ providers: rows, asked: 'claude', env: { MY_KEY: 'k' } })),
    'claude c',
  )
  await t.rejects(choose({ providers: rows, asked: 'claude' }), { message: /MY_KEY is not set/ })
  t.match(await choose({ providers: rows, asked: 'groq', env: { GROQ_API_KEY: 'g' } }), {
    model: 'other',
  })
  t.match(await choose({ providers: rows, asked: 'openai/m' }), {
    provider: { baseUrl: 'http://h:2/v1' },
    key: undefined,
  })
})

t.test('a table that is wrong is named', async (t) => {
  const rows: [object, RegExp][] = [
    [{}, /providers\.x\.base_url is no http/],
    [{ base_url: 'h:1' }, /providers\.x\.base_url is no http/],
    [{ base_url: 1 }, /providers\.x\.base_url is not a string/],
    [{ base_url: 'http://h', dialect: 'gemini' }, /providers\.x\.dialect is neither "openai" nor/],
    [{ base_url: 'http://h', url: 'y' }, /providers\.x\.url is none of base_url,/],
  ]
  for (const [table, message] of rows)
    t.throws(() => providersOf({ x: table as never }), { message })
})

t.test('lists of models in several shapes; a bad one is an error', async (t) => {
  const server = await startModel([], {
    models: [
      { id: 'a', context_length: 9, supported_parameters: ['tools'] },
      { name: 'b' },
      { odd: 1 },
    ],
  })
  t.teardown(() => server.close())
  const [row] = PROVIDERS as [Provider]
  const at = (baseUrl: string) => ({ provider: { ...row, baseUrl }, key: undefined, why: '' })
  const wanted = [
    { id: 'a', provider: 'openai', window: 9 },
    { id: 'b', provider: 'openai', window: undefined },
  ]
  t.strictSame(await listModels(http, at(server.url)), wanted)
  await t.rejects(listModels(http, at('http://127.0.0.1:1')), {
    kind: 'unreachable',
    message: /cannot reach/,
  })
})

const at = async (asked: string) =>
  choose({ asked, env: { OPENAI_API_KEY: 'k', ANTHROPIC_API_KEY: 'k' } })

t.test('windows are known or not', async (t) => {
  t.equal((await at('openai/gpt-4.1')).window, 1_047_576)
  t.equal((await at('anthropic/claude-opus-4-1')).window, 200_000)
  t.equal((await at('openai/never-heard-of')).window, 128_000)
})

t.test('every row is sound', async (t) => {
  t.equal(new Set(PROVIDERS.map((row) => row.name)).size, PROVIDERS.length)
  for (const row of PROVIDERS) {
    t.match(row.baseUrl, /^https?:\/\/[^/]+(\/.*[^/])?$/, row.name)
    t.equal(row.keys.length > 0, row.model !== undefined, row.name)
  }
})
