import t from 'tap'
import {
  annotate,
  arg,
  defineTool,
  pathArgument,
  takes,
  type ArgsOf,
  type Catalog,
  type RateLimit,
  type Tool,
  type ToolContext,
  type ToolRow,
} from '../tai.ts'

const schema = takes(['path'], {
  path: arg.text('Where.'),
  from: arg.whole('First line.', { minimum: 1 }),
  limit: arg.whole('How many.', { default: 10 }),
  all: arg.flag('Everything.'),
  kind: arg.oneOf(['a', 'b'], 'Which.', { default: 'a' }),
  names: arg.list({ type: 'string' }, 'Names.'),
  env: arg.map('Variables.'),
})

t.test('one line an argument makes a JSON Schema', async (t) => {
  t.strictSame(schema, {
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
    type Args = ArgsOf<typeof schema>
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

t.test('pathArgument is the argument of that name, if any', async (t) => {
  const cases = [{ path: 'a' }, { path: 1 }, {}]
  t.strictSame(cases.map(pathArgument), [['a'], [], []])
})

t.test('a row is a tool', async (t) => {
  const limit: RateLimit = { maxCalls: 1, windowSeconds: 60 }
  const row: ToolRow<typeof schema> = {
    name: 'n',
    family: 'f',
    description: 'd',
    parameters: schema,
    annotations: annotate('Low', 'reads'),
    core: false,
    rateLimit: limit,
    run: async ({ path, limit: most }) => ({ text: `${path} ${most}` }),
  }
  const made: Tool = defineTool(row)
  const nothing = {} as ToolContext & { catalog: Catalog }
  t.same(await made.run({ path: 'a', limit: 3 }, nothing, new AbortController().signal), {
    text: 'a 3',
  })
})
