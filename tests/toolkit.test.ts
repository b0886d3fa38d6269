import t from 'tap'
import {
  annotate,
  arg,
  maybe,
  takes,
  titleOf,
  toolsOf,
  type App,
  type JsonObject,
  type Tool,
  type ToolContext,
  type ToolRow,
} from '../tai.ts'
import { filled, openContext, row } from './fakes/bench.ts'

const fields = {
  path: arg('Where.'),
  from: maybe(arg.whole('First line.', { minimum: 1 })),
  limit: arg.whole('How many.', { default: 10 }),
  all: arg.flag('Everything.'),
  kind: arg.oneOf(['a', 'b'], 'Which.', { default: 'a' }),
  names: maybe(arg.texts('Names.')),
  env: maybe(arg.map('Variables.')),
}
const rowOf = <A>(row: ToolRow<A>) => row

t.test('one line an argument makes a JSON Schema', async (t) => {
  t.strictSame(takes(fields), {
    type: 'object',
    properties: {
      path: { type: 'string', description: 'Where.' },
      from: { type: 'integer', description: 'First line.', minimum: 1 },
      limit: { type: 'integer', description: 'How many.', default: 10 },
      all: { type: 'boolean', default: false, description: 'Everything.' },
      kind: { type: 'string', enum: ['a', 'b'], description: 'Which.', default: 'a' },
      names: { type: 'array', items: { type: 'string' }, description: 'Names.' },
      env: { type: 'object', additionalProperties: { type: 'string' }, description: 'Variables.' },
    },
    required: ['path'],
    additionalProperties: false,
  })
})

t.test(
  'arguments have the types of their schema: required or with a default, else optional',
  async (t) => {
    const { run } = rowOf({ description: 'd', takes: fields, run: async () => '' })
    type Args = Parameters<typeof run>[0]
    const full: Args = {
      path: 'a',
      limit: 1,
      all: true,
      kind: 'b',
      from: 2,
      names: ['x'],
      env: { A: 'b' },
    }
    const least: Args = { path: 'a', limit: 1, all: true, kind: 'a' }
    const from: number | undefined = least.from
    // @ts-expect-error a path is needed
    const none: Args = { limit: 1, all: true, kind: 'a' }
    // @ts-expect-error c is no kind
    const other: Args = { path: 'a', limit: 1, all: true, kind: 'c' }
    t.strictSame([full.kind, from, none.limit, other.limit], ['b', undefined, 1, 1])
  },
)

t.test('annotations repeat themselves in the words of MCP', async (t) => {
  t.strictSame(annotate('High', 'destroys', { openWorld: true }), {
    readOnly: false,
    destructive: true,
    idempotent: false,
    stateful: true,
    securityTier: 'High',
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: true,
  })
  t.match(annotate('Low', 'reads', { idempotent: true }), {
    readOnly: true,
    stateful: false,
    idempotentHint: true,
  })
})

t.test('a row is a tool of its family, with its defaults', async (t) => {
  const row = rowOf({
    description: 'd',
    takes: fields,
    annotations: annotate('Low', 'reads'),
    rateLimit: { maxCalls: 1, windowSeconds: 60 },
    run: async ({ path, limit: most }) => `${path} ${most}`,
  })
  const more = { ...row, core: true, paths: () => [] }
  const pathless = {
    description: 'd',
    annotations: annotate('Low', 'reads'),
    run: async () => ({ text: 'none' }),
  }
  const tools: Tool[] = toolsOf('f', { n: row, more, pathless })
  t.match(tools, [
    { name: 'n', family: 'f', core: false, rateLimit: { maxCalls: 1 } },
    { core: true },
    {},
  ])
  t.strictSame(
    tools.map(({ paths }) => paths?.({ path: 'a' })),
    [['a'], [], undefined],
    'the argument `path` is what a call touches, unless the row says more',
  )
  const nothing = {} as ToolContext
  const runs = tools.map(({ run }) => run({ path: 'a', limit: 3 }, nothing, AbortSignal.any([])))
  t.same(await Promise.all(runs), [{ text: 'a 3' }, { text: 'a 3' }, { text: 'none' }])
})

t.test('what the system says is a failed run, anything else a bug', async (t) => {
  const error = Object.assign(new Error('ENOSPC: disk full'), { errno: -28 })
  const failing = (thrown: Error) => {
    const work = { run: () => Promise.reject(thrown), preview: () => Promise.reject(thrown) }
    const row = { description: 'd' }
    return toolsOf('f', {
      n: { ...row, ...work, annotations: annotate('Low', 'reads') },
    })[0] as Tool
  }
  const call = [{}, {} as ToolContext, AbortSignal.any([])] as const
  await t.rejects(failing(error).run(...call), { name: 'TaiError', message: /disk full/ })
  await t.rejects(failing(error).preview!(...call), { name: 'TaiError' })
  await t.rejects(failing(new RangeError('a bug')).run(...call), { name: 'RangeError' })
})

t.test('a mark that stands for a secret reaches no tool that changes something', async (t) => {
  const work = { description: 'd', run: async () => 'done' }
  const [reads, changes] = toolsOf('f', {
    reads: work,
    changes: { ...work, annotations: annotate('Medium', 'changes') },
  }) as [Tool, Tool]
  const call = [{ deep: ['a [redacted:KEY] b'] }, {} as ToolContext, AbortSignal.any([])] as const
  t.same(await reads.run(...call), { text: 'done' })
  await t.rejects(changes.run(...call), { message: /what changes is given holds a mark/ })
})

t.test('no tool shows the half of a secret that it cuts', async (t) => {
  const secret = 'K7p2Qm9Xw4Rz8Tb1Yc6Vd3Ne5Hf0Jg'
  const around = (before: number) => `${'-'.repeat(before)}${secret}${'+'.repeat(2_000)}`
  const files = {
    grep: `needle${around(275)}\n`,
    back: `${secret}${'-'.repeat(99)}needle${'+'.repeat(2_000)}\n`,
    edit: `first\n${around(1_005)}\n`,
  }
  const context = await openContext(t, { files, env: { PATH: process.env['PATH'] ?? '' } })
  const { processes, store } = context
  t.teardown(() => processes.stopAll())
  store.redactor.add('PIN', secret)
  await store.saveProfile({ name: 'p', prompt: around(70) })
  const title = titleOf(store as unknown as App, [{ kind: 'text', text: around(50) }])
  await store.createSession({ title, profile: '', model: '', workspace: '' })
  await processes.start({ command: `: ${around(65)}`, world: context.world, cwd: '/', env: {} })
  const patch = `--- a/edit\n+++ b/edit\n@@ -1,2 +1,2 @@\n-first!\n-${'-'.repeat(99)}\n+x\n+y\n`
  const calls: [string, JsonObject][] = [
    ['grep', { pattern: 'needle' }],
    ['grep', { pattern: secret.slice(15) }],
    ['grep', { pattern: `--${secret.slice(0, 5)}` }],
    ['edit_file', { path: 'edit', old: `first!\n${'-'.repeat(99)}`, new: '' }],
    ['apply_patch', { patch }],
    ['vault_write', { content: around(70) }],
    ['vault_search', { query: '' }],
    ['profile_list', {}],
    ['session_list', {}],
    ['process_list', {}],
  ]
  for (const [name, args] of calls) {
    const run = row(name).run(filled(name, args), context, AbortSignal.timeout(9_000))
    const said = await run.then(({ text }) => text, String)
    t.ok(said.length > 20, `${name}: ${said}`)
    for (let at = 0; at < secret.length - 5; at++)
      if (said.includes(secret.slice(at, at + 5))) t.fail(`${name}: ${said}`)
  }
})
