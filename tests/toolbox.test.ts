import t from 'tap'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  annotate,
  annotationsOf,
  arg,
  bridgedTools,
  callDigest,
  checkArguments,
  OWN_NAMES,
  toolsOf,
  schemaCheck,
  TaiError,
  takes,
  TOOLS,
  Tools,
  UsageError,
  type Tool,
  type ToolOutput,
} from '../tai.ts'
import { toolNamed, upstream } from './fakes/upstream.ts'
import { never, openWorld, person } from './fakes/world.ts'

const natives = JSON.parse(
  readFileSync(new URL('data/native-tools.json', import.meta.url), 'utf8'),
).tools

/** A tool that does what a test says. */
const probe = (run: () => Promise<ToolOutput>, more: object = {}) =>
  toolsOf('test', {
    probe: {
      description: 'A probe.',
      takes: {
        word: arg('Any word.'),
        times: arg.whole('How often.', { minimum: 1, default: 2 }),
      },
      annotations: annotate('Low', 'reads'),
      core: true,
      run,
      ...more,
    },
  })[0] as Tool

t.test(
  'every tool is one of the sixty, with its name, arguments, annotations and limits',
  async (t) => {
    const bare = (value: unknown): unknown =>
      JSON.parse(
        JSON.stringify(value, (key, item) =>
          key === 'description' && typeof item === 'string' ? undefined : item,
        ),
      )
    for (const row of TOOLS) {
      const wanted = natives.find((native: { name: string }) => native.name === row.name)
      if (!t.ok(wanted, `${row.name} is one of the sixty`)) continue
      t.strictSame(row.annotations, wanted.annotations, `${row.name} annotations`)
      t.strictSame(
        [row.family, row.core, row.rateLimit],
        [wanted.family, wanted.core, wanted.rateLimit],
        row.name,
      )
      t.same(bare(row.parameters), bare(wanted.parameters), `${row.name} parameters`)
      for (const [name, schema] of Object.entries(Object(row.parameters['properties'])))
        t.ok((schema as { description?: string }).description, `${row.name}.${name} is described`)
    }
  },
)

t.test(
  'at first the core tools are offered; select_tools adds to them and never takes away',
  async (t) => {
    const w = await openWorld()
    t.teardown(w.close)
    const names = () => w.tools.offered.map((row) => row.name)
    t.ok(names().includes('read_file'))
    t.notOk(names().includes('git_log'))
    t.ok(w.tools.hidden.some((row) => row.name === 'git_log'))
    const before = names()
    const outcome = await w.tools.dispatch(
      'select_tools',
      { query: 'recent commits', names: ['text_diff', 'nope'] },
      never,
    )
    t.match(outcome, { why: undefined, output: { text: /git_log/ } })
    t.ok(names().includes('git_log') && names().includes('text_diff'))
    t.strictSame(
      before.filter((name) => !names().includes(name)),
      [],
    )
  },
)

t.test('--tools offers these and no others, and a wrong name is a usage error', async (t) => {
  const w = await openWorld({ only: ['git_log', 'read_file'] })
  t.teardown(w.close)
  t.same(w.tools.offered.map((row) => row.name).toSorted(), ['git_log', 'read_file'])
  t.match(await w.tools.dispatch('write_file', { path: 'a', content: 'x' }, never), {
    why: 'unknown',
  })
  await t.rejects(openWorld({ only: ['git_lgo'] }), {
    message: /no tool named git_lgo/,
    hint: /tai tools list/,
  })
  t.ok(Tools && UsageError)
})

t.test('what a caller does wrong is refused with words that help', async (t) => {
  const w = await openWorld({ rows: [probe(async () => ({ text: 'ran' }))] })
  t.teardown(w.close)
  const cases: [string, object, string, RegExp][] = [
    ['prob', { word: 'x' }, 'unknown', /no tool named prob; find tools with select_tools/],
    ['probe', {}, 'invalid', /word/],
    ['probe', { word: 3 }, 'invalid', /argument word/],
    ['probe', { word: 'x', times: 0 }, 'invalid', /argument times/],
    [
      'probe',
      { word: 'x', colour: 'red' },
      'invalid',
      /argument colour: it is unknown; it takes word, times/,
    ],
    ['probe', { word: null }, 'invalid', /word/],
  ]
  for (const [name, args, why, text] of cases)
    t.match(
      await w.tools.dispatch(name, args as never, never),
      { why, output: { text } },
      JSON.stringify(args),
    )
})

t.test('checkArguments fills in defaults and takes null for absent', async (t) => {
  const schema = takes({ a: arg('a'), n: arg.whole('n', { default: 7 }), f: arg.flag('f') })
  t.same(checkArguments(schema, await schemaCheck(schema), { a: 'x', n: null }), {
    args: { a: 'x', n: 7, f: false },
  })
})

t.test(
  'a tool that fails is an error the model can read; one that crashes is a bug that is named',
  async (t) => {
    const failing = probe(() =>
      Promise.reject(new TaiError('no such thing', { hint: 'look elsewhere' })),
    )
    const w = await openWorld({ rows: [failing] })
    t.teardown(w.close)
    t.match(await w.tools.dispatch('probe', { word: 'x' }, never), {
      why: undefined,
      output: { isError: true, text: 'no such thing\nlook elsewhere' },
    })
    const v = await openWorld({
      rows: [probe(() => Promise.reject(new TypeError('x is undefined')))],
    })
    t.teardown(v.close)
    t.match(await v.tools.dispatch('probe', { word: 'x' }, never), {
      why: 'crashed',
      output: { text: /failed inside tai: x is undefined/ },
    })
  },
)

t.test('a large result is kept whole in the vault and its beginning given', async (t) => {
  const text = 'é'.repeat(50_000)
  const w = await openWorld({ rows: [probe(async () => ({ text }))] })
  t.teardown(w.close)
  const outcome = await w.tools.dispatch('probe', { word: 'x' }, never)
  if (outcome.why) throw new Error('it did not run')
  t.match(outcome.output.text, /result of 100000 bytes/)
  t.ok(Buffer.byteLength(outcome.output.text) < 3_000)
  t.notMatch(outcome.output.text, '\ufffd')
  const id = /record (\S+):/.exec(outcome.output.text)?.[1] ?? ''
  t.equal((await w.store.getRecord(id))?.body, text)
  const exact = await openWorld({ rows: [probe(async () => ({ text: 'x'.repeat(65_536) }))] })
  t.teardown(exact.close)
  t.match(await exact.tools.dispatch('probe', { word: 'x' }, never), {
    why: undefined,
    output: { text: /^x{65536}$/ },
  })
})

t.test('known secrets leave no result, no record and no audit row', async (t) => {
  const secret = 'correct-horse-battery'
  const w = await openWorld({
    rows: [
      probe(async () => ({
        text: `key=${secret} ${Buffer.from(secret).toString('base64')}`,
        structured: { key: secret },
        blocks: [{ type: 'resource', resource: { uri: 'test://a', text: secret } }],
      })),
    ],
  })
  t.teardown(w.close)
  w.store.redactor.add('API_KEY', secret)
  const outcome = await w.tools.dispatch('probe', { word: secret }, never)
  t.notMatch(JSON.stringify(outcome), secret)
  t.match(JSON.stringify(outcome), /redacted:API_KEY/)
  t.notMatch(JSON.stringify(await w.store.listAudit({ limit: 10 })), secret)
})

t.test('a rate limit counts calls that ran, and says when to come back', async (t) => {
  let ran = 0
  const limited = probe(async () => ({ text: String((ran += 1)) }), {
    rateLimit: { maxCalls: 2, windowSeconds: 60 },
  })
  const w = await openWorld({ rows: [limited] })
  t.teardown(w.close)
  const call = () => w.tools.dispatch('probe', { word: 'x' }, never)
  t.match([await call(), await call()], [{ why: undefined }, { why: undefined }])
  w.pass(20_000)
  t.match(await call(), {
    why: 'busy',
    output: { text: "Rate limit exceeded for tool 'probe': 2 calls per 60s" },
    data: { retry_after_s: 40 },
  })
  w.pass(40_000)
  t.match(await call(), { why: undefined })
  t.equal(ran, 3)
})

t.test('a denied call does not run; what a person allows runs once', async (t) => {
  let ran = 0
  const risky = probe(async () => ({ text: String((ran += 1)) }), {
    annotations: annotate('High', 'destroys'),
    preview: async () => 'a diff to look at',
  })
  const nobody = await openWorld({ rows: [risky] })
  t.teardown(nobody.close)
  t.match(await nobody.tools.dispatch('probe', { word: 'x' }, never), {
    why: 'denied',
    data: { reason: 'jit_no_approval', mode: 'prompt' },
  })
  t.equal(ran, 0)
  const asked = person('y', 'n')
  const w = await openWorld({ rows: [risky], prompter: asked })
  t.teardown(w.close)
  t.match(await w.tools.dispatch('probe', { word: 'x\u001b[2J' }, never), { why: undefined })
  t.match(await w.tools.dispatch('probe', { word: 'y' }, never), { why: 'denied' })
  t.equal(ran, 1)
  t.match(asked.questions[0], /probe/)
  t.match(asked.questions[0], /a diff to look at/)
  t.notMatch(asked.questions[0], '\u001b')
})

t.test('what allows one call is used up by a call that ran, and by no other', async (t) => {
  let ran = 0
  const risky = probe(async () => ({ text: String((ran += 1)) }), {
    annotations: annotate('High', 'destroys'),
    rateLimit: { maxCalls: 2, windowSeconds: 60 },
  })
  const w = await openWorld({ rows: [risky] })
  t.teardown(w.close)
  const args = { word: 'x' }
  const grant = () =>
    w.store.addGrant({ tool: 'probe', scope: 'once', digest: callDigest('probe', args) })
  const call = (given: object = args) => w.tools.dispatch('probe', given as never, never)
  await grant()
  t.match(await call({ word: 'y' }), { why: 'denied' }, 'another call')
  t.match(await call({ word: 3 }), { why: 'invalid' })
  t.match(await call(), { why: undefined, output: { text: '1' } })
  t.match(await call(), { why: 'denied' }, 'it is used up')
  await grant()
  const both = await Promise.all([call(), call()])
  t.strictSame(both.filter(({ why }) => why).length, 1, 'one of two at once')
  await grant()
  t.match(await call(), { why: 'busy' })
  w.pass(60_000)
  t.match(await call(), { why: undefined, output: { text: '3' } }, 'a refused call left it')
  t.equal(ran, 3)
})

t.test('a call whose preview fails has failed, and nobody is asked', async (t) => {
  const asked = person('y')
  const row = probe(async () => ({ text: 'ran' }), {
    annotations: annotate('High', 'destroys'),
    preview: () => Promise.reject(new TaiError('no such file', { hint: 'look elsewhere' })),
  })
  const w = await openWorld({ rows: [row], prompter: asked })
  t.teardown(w.close)
  t.match(await w.tools.dispatch('probe', { word: 'x' }, never), {
    why: undefined,
    output: { isError: true, text: 'no such file\nlook elsewhere' },
  })
  t.strictSame(asked.questions, [])
  const [call] = await w.store.listAudit({ kind: 'tool-call', limit: 1 })
  t.equal(call?.data['outcome'], 'error')
})

t.test('mode allow says a line for each call', async (t) => {
  const w = await openWorld({ rows: [probe(async () => ({ text: 'ok' }))], mode: 'allow' })
  t.teardown(w.close)
  await w.tools.dispatch('probe', { word: 'x' }, never)
  t.match(w.said, [/probe/])
})

t.test('it is told beforehand whether a call only reads', async (t) => {
  const w = await openWorld({ rows: [probe(async () => ({ text: '' }))] })
  t.teardown(w.close)
  t.equal(w.tools.reads({ name: 'probe', args: { word: 'x' } }), true)
})

t.test('where reading and changing share a tool, the arguments decide', async (t) => {
  const branch = TOOLS.find((row) => row.name === 'git_branch')!
  t.equal(annotationsOf(branch, { action: 'list', path: '.' }).readOnly, true)
  t.equal(annotationsOf(branch, { action: 'delete', path: '.' }).destructive, true)
})

const PATCH = `--- a/old
+++ b/new
@@ -1 +1 @@
-a
+b
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
`
/** What each tool with paths touches, its defaults filled in. */
const TOUCHED: [string, object, string[]][] = [
  ['read_file', { path: 'a' }, ['a']],
  ['list_dir', {}, ['.']],
  ['file_info', { path: 'a' }, ['a']],
  ['write_file', { path: 'a', content: '' }, ['a']],
  ['edit_file', { path: 'a', old: 'x', new: 'y' }, ['a']],
  ['apply_patch', { patch: PATCH }, ['old', 'new', 'gone']],
  ['apply_patch', { patch: 'none' }, []],
  ['move_path', { from: 'a', to: 'b' }, ['a', 'b']],
  ['delete_path', { path: 'a' }, ['a']],
  ['undo_edit', { path: 'a' }, []],
  ['glob', { pattern: 'src/**/*.ts' }, ['src']],
  ['glob', { pattern: '*.ts', path: 'lib' }, ['lib']],
  ['glob', { pattern: 'x/a.ts', path: 'lib' }, ['lib/x']],
  ['glob', { pattern: '/etc/*' }, ['/etc']],
  ['grep', { pattern: 'x' }, ['.']],
  ['git_status', {}, ['.']],
  ['git_diff', { path: 'a' }, ['a']],
  ['git_log', { path: 'a' }, ['a']],
  ['git_branch', { action: 'list' }, ['.']],
  ['git_commit', { message: 'm', paths: ['a'] }, ['a', '.']],
  ['text_diff', { path_a: 'a', path_b: 'b' }, ['a', 'b']],
  ['shell_exec', { command: 'cat a' }, []],
]

t.test('path grants judge what a call touches, with the defaults it runs with', async (t) => {
  for (const [name, args, paths] of TOUCHED) {
    const row = TOOLS.find((one) => one.name === name)!
    const check = await schemaCheck(row.parameters)
    const checked = checkArguments(row.parameters, check, args as never)
    if ('problem' in checked) t.fail(checked.problem)
    else t.strictSame((await row.paths?.(checked.args)) ?? [], paths, `${name} ${paths}`)
    const w = await openWorld({ mode: 'danger-full-access' })
    const deny = { scope: 'deny', paths: paths.slice(-1).concat('secret') } as const
    const open = { mode: undefined, digest: undefined, session: undefined, root: undefined }
    await w.store.addGrant({ ...open, ...deny, tool: name, commands: [], expires: undefined })
    const outcome = await w.tools.dispatch(name, args as never, never)
    t.match(outcome, { why: 'denied' }, `${name} is denied ${deny.paths}`)
    await w.close()
  }
})

t.test('every call is one row of the audit, with what came of it', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  writeFileSync(join(w.root, 'a.txt'), 'hello\n')
  await w.tools.dispatch('read_file', { path: 'a.txt' }, never)
  await w.tools.dispatch('read_file', { path: '../x' }, never)
  await w.tools.dispatch('shell_exec', { command: 'touch x' }, never)
  const rows = (await w.store.listAudit({ kind: 'tool-call', limit: 10 })).map(({ data }) => [
    data['tool'],
    data['outcome'],
  ])
  t.strictSame(rows, [
    ['shell_exec', 'denied'],
    ['read_file', 'error'],
    ['read_file', 'ok'],
  ])
  t.same((await w.store.verifyAudit()).problems, [])
})

t.test("no tool of a server takes a name of tai's own", async (t) => {
  const w = await openWorld({ mode: 'danger-full-access' })
  t.teardown(w.close)
  const tools = ['mine', ...OWN_NAMES].map((name) => toolNamed(name))
  const { entry } = upstream(w.dir, { tools }, { options: { toolPrefix: 'none' } })
  await w.bridge.add(entry, 'explicit', never)
  await w.bridge.enable('stub', 'default')
  const callable = bridgedTools(w.bridge, 'default').filter(({ origin }) => origin?.names[0])
  t.strictSame(
    callable.map(({ name }) => name),
    ['mine'],
  )
})

t.test('mcp_search finds and offers tools of enabled servers, and of no others', async (t) => {
  const w = await openWorld()
  t.teardown(w.close)
  const search = async (args: object) => {
    const outcome = await w.tools.dispatch('mcp_search', args as never, never)
    return outcome.why ? t.fail(outcome.output.text) : outcome.output
  }
  const names = () => w.tools.offered.map((row) => row.name)
  t.match(await search({ query: 'weather' }), {
    text: 'no tool fits\nenabled servers: none; mcp_list shows all',
  })
  const told = ['rain', 'snow', 'sun'].map((name) => toolNamed(name, `The weather: ${name}.`))
  const { entry } = upstream(w.dir, { tools: told })
  for (const name of ['sky', 'sea', 'off']) {
    await w.bridge.add({ ...entry, name }, 'explicit', never)
    if (name !== 'off') await w.bridge.enable(name, 'default')
  }
  t.notOk(names().some((name) => /_sky_|_sea_/.test(name)))
  const two = await search({ query: 'weather rain', limit: 2 })
  t.match(two, { text: /^offered from the next step on:\n- mcp_(sky|sea)_rain: The weather: rain/ })
  t.equal(names().filter((name) => /^mcp_s\w\w_rain$/.test(name)).length, 2)
  await search({ query: 'weather snow read files', server: 'sea', limit: 15 })
  t.strictSame(
    names()
      .filter((name) => /snow|sun/.test(name))
      .toSorted(),
    ['mcp_sea_snow', 'mcp_sea_sun'],
  )
  t.notOk(
    names().some((name) => /off|git_log/.test(name)),
    'native tools are not found',
  )
  t.match(await search({ query: 'zebra' }), { text: /^no tool fits\nenabled servers: sea, sky;/ })
  for (const server of ['off', 'none'])
    t.match(await search({ query: 'x', server }), {
      text: 'no tool fits\nenabled servers: sea, sky; mcp_list shows all',
    })
  t.match(await w.tools.dispatch('mcp_search', { query: 'x', limit: 16 }, never), {
    why: 'invalid',
  })
})
