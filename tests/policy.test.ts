import * as fs from 'node:fs'
import * as path from 'node:path'
import t, { type Test } from 'tap'
import {
  annotate,
  type Annotations,
  type ApprovalOptions,
  type ApprovalRequest,
  Approvals,
  awaitAnswer,
  callDigest,
  type Choice,
  type Grant,
  isReadOnlyCommand,
  type JsonObject,
  type Mode,
  MODES,
  type Prompter,
  type Reason,
  riskOf,
  RULES,
  Store,
  VERDICTS,
} from '../tai.ts'
import { makeWorld } from './fakes/vault.ts'

/** A person who answers each question with the next key; without keys, there is nobody. */
class Scripted implements Prompter {
  readonly available: boolean
  readonly asked: { question: string; choices: readonly Choice[] }[] = []
  readonly #keys: (string | undefined)[]
  constructor(...keys: (string | undefined)[]) {
    this.available = keys.length > 0
    this.#keys = keys
  }
  async choose(question: string, choices: readonly Choice[]): Promise<string | undefined> {
    this.asked.push({ question, choices })
    return this.#keys.shift()
  }
  async ask(): Promise<string | undefined> {
    return undefined
  }
}

const NOBODY = new Scripted()
const never = new AbortController().signal

const SORTS = {
  low: annotate('Low', 'reads'),
  medium: annotate('Medium', 'changes'),
  mediumDestructive: annotate('Medium', 'destroys'),
  high: annotate('High', 'destroys'),
} as const satisfies Record<string, Annotations>

/** A real vault in a fresh home, and a way to make approvals over it. */
async function open(t: Test, tree: NonNullable<Parameters<Test['testdir']>[0]> = {}) {
  const home = fs.realpathSync(t.testdir({ home: {}, root: tree }))
  let now = 1_000_000
  const world = makeWorld(path.join(home, 'home'), {
    env: {},
    platform: 'linux',
    cwd: home,
    pid: 1,
    now: () => now,
  })
  const store = await Store.open(world)
  t.teardown(() => store.close())
  const approvals = (
    mode: Mode,
    prompter: Prompter = NOBODY,
    more: Partial<ApprovalOptions> = {},
  ) => new Approvals({ mode, store, prompter, world, root: home, ...more })
  const root = path.join(home, 'root')
  return { world, root, store, approvals, advance: (ms: number) => (now += ms) }
}

/** What the row of a tool would say of these arguments. */
const namedIn = ({ path: at, from, to, paths = [] }: JsonObject): string[] =>
  [at, from, to, ...(paths as string[])].filter((name) => typeof name === 'string')

const call = (
  tool: string,
  args: JsonObject = {},
  annotations: Annotations = SORTS.high,
): ApprovalRequest => ({
  tool,
  args,
  digest: () => callDigest(tool, args),
  paths: namedIn(args),
  annotations,
  session: 's1',
})

const GRANT: Omit<Grant, 'id' | 'created'> = {
  tool: 'shell_exec',
  scope: 'always',
  mode: undefined,
  digest: undefined,
  session: undefined,
  root: undefined,
  paths: [],
  commands: [],
  expires: undefined,
}

t.test('the table of permissions', async (t) => {
  const table: [Mode, string, string, string, string][] = [
    ['read-only', 'run', 'deny', 'deny', 'deny'],
    ['workspace-write', 'run', 'run', 'run', 'deny'],
    ['prompt', 'run', 'run', 'ask', 'ask'],
    ['allow', 'run, said', 'run, said', 'run, said', 'run, said'],
    ['danger-full-access', 'run', 'run', 'run', 'run'],
  ]
  const { approvals } = await open(t)
  t.strictSame(
    table.map(([mode]) => mode),
    MODES,
  )
  for (const [mode, ...outcomes] of table)
    for (const [i, [sort, annotations]] of Object.entries(SORTS).entries()) {
      const asker = new Scripted('y')
      const decision = await approvals(mode, asker).decide(
        call('some_tool', {}, annotations),
        never,
      )
      const ran = decision.say === undefined ? decision.verdict : `${decision.verdict}, said`
      t.equal(asker.asked.length > 0 ? 'ask' : ran, outcomes[i], `${mode}, ${sort}`)
    }
  t.equal(riskOf(annotate('Critical', 'destroys')), 'high')
  t.equal(
    riskOf(annotate('Low', 'changes')),
    'medium',
    'a claim that contradicts itself is not Low',
  )
  t.equal(VERDICTS.prompt.high, 'ask')
})

t.test('with nobody to ask, an ask is a denial that says what would let it pass', async (t) => {
  const { approvals } = await open(t)
  const cases: [Mode, Reason, RegExp][] = [
    ['read-only', 'read_only_mode', /--permission-mode workspace-write/],
    ['workspace-write', 'workspace_write_mode', /tai approval grant shell_exec/],
    ['prompt', 'jit_no_approval', /--auto.*tai approval grant shell_exec/],
  ]
  for (const [mode, reason, hint] of cases) {
    const request = call('shell_exec', { command: 'rm -rf build' })
    const decision = await approvals(mode).decide(request, never)
    t.match(decision, { verdict: 'deny', reason, say: undefined, grant: undefined })
    t.match(
      decision.denial?.message,
      `shell_exec (${decision.digest().slice(0, 12)}) was not run: `,
    )
    t.ok(decision.denial?.message.endsWith(RULES[reason].split('; ')[0] || '-'))
    t.match(decision.denial?.hint, hint)
  }
})

t.test('the question shows the whole call, and nothing in it can hide', async (t) => {
  const { approvals } = await open(t)
  const asker = new Scripted('n')
  const args = {
    command: 'echo \u001b[2Khi\u202e\nAllow it?\r\nrm x',
    cwd: 'src',
    env: { A: '1\u0007' },
  }
  const request = {
    ...call('delete_all', args),
    origin: 'ev\u001b]il',
    preview: async () => '-a\n+b',
  }
  const decision = await approvals('prompt', asker).decide(request, never)
  t.match(decision, { verdict: 'deny', reason: 'jit_user_denied' })
  const digest = callDigest('delete_all', args)
  t.equal(decision.digest(), digest)
  t.equal(
    asker.asked[0]?.question,
    [
      `delete_all (${digest.slice(0, 12)}) of server ev\\e]il wants to run (High)`,
      '  | command: ',
      '  | echo \\e[2Khi\\u{202e}',
      '  | Allow it?\\r',
      '  | rm x',
      '  | cwd: src',
      '  | env: {"A":"1\\u0007"}',
      '  it would change:',
      '  | -a',
      '  | +b',
      `Allow delete_all (${digest.slice(0, 12)})?`,
    ].join('\n'),
  )
})

t.test('a large call and a long diff are shown whole', async (t) => {
  const { approvals } = await open(t)
  const args = { content: `é${'x'.repeat(20_000)}end` }
  const diff = `${'-old\n'.repeat(9_000)}+new`
  const asker = new Scripted('y')
  const request = { ...call('write', args, SORTS.mediumDestructive), preview: async () => diff }
  t.match(await approvals('prompt', asker).decide(request, never), { verdict: 'run' })
  const [{ question } = { question: '' }] = asker.asked
  t.ok(question.includes(args.content))
  t.equal(question.split('  | -old').length, 9_001)
})

t.test('blank lines do not push a call out of sight', async (t) => {
  const { approvals } = await open(t)
  const asker = new Scripted('n')
  const command = `a\n\n\nb\n \t\n${'\n'.repeat(500)}rm x`
  await approvals('prompt', asker).decide(call('shell_exec', { command }), never)
  const lines = asker.asked[0]?.question.split('\n').slice(2, -1)
  t.strictSame(
    lines,
    ['a', '', '', 'b', '(501 blank lines)', 'rm x'].map((line) => `  | ${line}`),
  )
})

t.test('answers', async (t) => {
  const cases: [(string | undefined)[], string, Reason][] = [
    [['y'], 'run', 'jit_user_approved'],
    [['n'], 'deny', 'jit_user_denied'],
    [['?'], 'deny', 'jit_user_denied'],
    [[undefined], 'deny', 'jit_no_answer'],
  ]
  const { approvals, store } = await open(t)
  for (const [keys, verdict, reason] of cases) {
    const asker = new Scripted(...keys)
    const decision = await approvals('prompt', asker).decide(call('http_request'), never)
    t.match(decision, { verdict, reason }, keys.join())
    t.equal(asker.asked.length, keys.length)
  }
  t.strictSame(await store.listGrants(), [], 'none of these is kept')
})

t.test('the choices say what each of them allows', async (t) => {
  const { approvals } = await open(t)
  const asker = new Scripted('n')
  const request = call('shell_exec', { command: 'npm run build -q' })
  await approvals('prompt', asker).decide(request, never)
  t.strictSame(asker.asked[0]?.choices, [
    { key: 'y', label: 'yes, once' },
    {
      key: 's',
      label: 'for this session, in this folder: exactly this call',
    },
    { key: 'a', label: 'always, in this folder: exactly this call' },
    { key: 'n', label: 'no' },
  ])
})

t.test('no answer in time, an abort and a broken prompter are denials', async (t) => {
  const { approvals } = await open(t)
  const silent: Prompter = {
    available: true,
    choose: () => new Promise(() => {}),
    ask: async () => undefined,
  }
  const broken: Prompter = { ...silent, choose: () => Promise.reject(new Error('no terminal')) }
  const late = await approvals('prompt', silent, { wait: 5 }).decide(call('x'), never)
  t.match(late, { verdict: 'deny', reason: 'jit_no_answer' })
  t.match(await approvals('prompt', broken).decide(call('x'), never), { verdict: 'deny' })
  const stopped = AbortSignal.abort(new Error('Ctrl-C'))
  t.match(await approvals('prompt', silent).decide(call('x'), stopped), { verdict: 'deny' })
  const controller = new AbortController()
  const waiting = approvals('prompt', silent).decide(call('x'), controller.signal)
  controller.abort(new Error('Ctrl-C'))
  t.match(await waiting, { verdict: 'deny', reason: 'jit_no_answer' })
})

type Keypress = {
  key: 's' | 'a'
  tool: string
  args: JsonObject
  sort?: Annotations
  passes: JsonObject[]
  asks: JsonObject[]
}
const KEYPRESSES: readonly Keypress[] = [
  {
    key: 's',
    tool: 'shell_exec',
    args: { command: 'npm run build' },
    passes: [{ command: 'npm run build' }],
    asks: [{ command: 'npm run build -q' }, { command: 'npm run build; rm -rf x' }],
  },
  {
    key: 's',
    tool: 'shell_exec',
    args: { command: 'rm -rf build' },
    passes: [{ command: 'rm -rf build' }],
    asks: [{ command: 'rm -rf build src' }, { command: 'rm -rf build', cwd: 'src' }],
  },
  {
    key: 'a',
    tool: 'shell_exec',
    args: { command: 'npm run build' },
    passes: [{ command: 'npm run build' }],
    asks: [{ command: 'npm run build -q' }],
  },
  {
    key: 's',
    tool: 'edit_file',
    args: { path: 'a.ts' },
    sort: SORTS.mediumDestructive,
    passes: [{ path: 'b/c.ts' }],
    asks: [],
  },
  {
    key: 'a',
    tool: 'edit_file',
    args: { path: 'a.ts' },
    sort: SORTS.mediumDestructive,
    passes: [{ path: 'a.ts' }],
    asks: [{ path: 'b.ts' }],
  },
  {
    key: 'a',
    tool: 'move_path',
    args: { from: 'a', to: 'b' },
    sort: SORTS.mediumDestructive,
    passes: [{ from: 'a', to: 'b' }],
    asks: [{ from: 'a', to: 'c' }],
  },
  {
    key: 's',
    tool: 'delete_path',
    args: { path: 'build' },
    passes: [{ path: 'build' }],
    asks: [{ path: 'src' }, { path: '../build' }],
  },
  {
    key: 's',
    tool: 'http_request',
    args: { url: 'https://a.example' },
    passes: [{ url: 'https://a.example' }],
    asks: [{ url: 'https://b.example' }],
  },
  {
    key: 'a',
    tool: 'delete_path',
    args: { path: '../outside' },
    passes: [{ path: '../outside' }],
    asks: [{ path: '../other' }],
  },
]

t.test('a keypress allows no more than it shows', async (t) => {
  for (const { key, tool, args, sort = SORTS.high, passes, asks } of KEYPRESSES) {
    const { approvals } = await open(t)
    const once = await approvals('prompt', new Scripted(key)).decide(call(tool, args, sort), never)
    t.equal(once.verdict, 'run')
    t.type(once.grant, 'string')
    for (const pass of passes) {
      const decision = await approvals('prompt').decide(call(tool, pass, sort), never)
      t.match(decision, { verdict: 'run', reason: 'grant' }, `${key} ${JSON.stringify(pass)}`)
    }
    for (const ask of asks) {
      const decision = await approvals('prompt').decide(call(tool, ask, sort), never)
      t.match(decision, { reason: 'jit_no_approval' }, `${key} ${JSON.stringify(ask)}`)
    }
  }
})

t.test(
  'what a keypress allows holds in this folder, what a command line grants anywhere',
  async (t) => {
    const { approvals, store, root: here } = await open(t, { a: {} })
    const there = path.join(here, 'a')
    for (const [key, tool, args, sort] of [
      ['a', 'shell_exec', { command: 'npm test' }, SORTS.high],
      ['s', 'shell_exec', { command: 'npm run x' }, SORTS.high],
      ['a', 'edit_file', { path: 'b' }, SORTS.mediumDestructive],
      ['s', 'write_file', { path: 'b' }, SORTS.mediumDestructive],
    ] as const) {
      const request = call(tool, args, sort)
      await approvals('prompt', new Scripted(key), { root: here }).decide(request, never)
      t.match(await approvals('prompt', NOBODY, { root: here }).check(request), { verdict: 'run' })
      t.match(await approvals('prompt', NOBODY, { root: there }).check(request), { verdict: 'ask' })
    }
    await store.addGrant({ ...GRANT, commands: ['npm test'] })
    const request = call('shell_exec', { command: 'npm test' })
    t.match(await approvals('prompt', NOBODY, { root: there }).check(request), { verdict: 'run' })
    for (const [cwd, verdict] of [
      ['.', 'run'],
      ['a', 'ask'],
      ['..', 'ask'],
    ])
      t.match(
        await approvals('prompt', NOBODY, { root: here }).check(
          call('shell_exec', { command: 'npm test', cwd: `${cwd}` }),
        ),
        { verdict },
        `in ${cwd}`,
      )
  },
)

t.test('path grants judge what a path really is', async (t) => {
  const tree = {
    src: { 'a.ts': '', deep: { x: '' }, out: t.fixture('symlink', '../lib') },
    lib: { '.env': '', b: '' },
    l: t.fixture('symlink', 'lib'),
    lost: t.fixture('symlink', 'nowhere'),
  }
  const cases: [Partial<Grant>, string[], boolean][] = [
    [{ paths: ['src/**'] }, ['src/a.ts'], true],
    [{ paths: ['src/**'] }, ['src/new/file'], true],
    [{ paths: ['src/**'] }, ['src/out/b'], false],
    [{ paths: ['src/**'] }, ['src/out/new'], false],
    [{ paths: ['lib/**'] }, ['l/b'], false],
    [{ paths: ['lib/**', 'l/**'] }, ['l/b'], true],
    [{ paths: ['**'] }, ['lost'], false],
    [{ paths: ['**'] }, ['lost/x'], false],
    [{ paths: ['**'] }, [], false],
    [{ paths: ['src/**'] }, ['src/a.ts', 'lib/b'], false],
    [{ scope: 'deny', paths: ['lib/**'] }, ['l/b'], true],
    [{ scope: 'deny', paths: ['l/**'] }, ['l/b'], true],
    [{ scope: 'deny', paths: ['lib/b'] }, ['src/out/b'], true],
    [{ scope: 'deny', paths: ['lib/b'] }, ['src/out'], true],
    [{ scope: 'deny', paths: ['**/.env'] }, ['lib'], true],
    [{ scope: 'deny', paths: ['.env'] }, ['LIB'], false],
    [{ scope: 'deny', paths: ['.env'] }, ['lib'], true],
    [{ scope: 'deny', paths: ['LIB/*/x'] }, ['lib'], true],
    [{ scope: 'deny', paths: ['src/*/x'] }, ['src/deep'], true],
    [{ scope: 'deny', paths: ['**/.env'] }, ['lib/b'], false],
    [{ scope: 'deny', paths: ['lib/**'] }, ['src/deep'], false],
    [{ scope: 'deny', paths: ['lib/**'] }, ['src/a.ts', 'lib/b'], true],
    [{ scope: 'deny', paths: ['lib/**'] }, ['lost'], true],
    [{ scope: 'deny', paths: ['lib/**'] }, [], true],
  ]
  for (const [conditions, paths, matches] of cases) {
    const { approvals, store, root } = await open(t, tree)
    await store.addGrant({ ...GRANT, tool: 'tool', ...conditions })
    const { reason } = await approvals('prompt', NOBODY, { root }).check({ ...call('tool'), paths })
    const wanted = conditions.scope === 'deny' ? 'deny_grant' : 'grant'
    t.equal(reason, matches ? wanted : 'jit_no_approval', `${conditions.paths} ${paths}`)
  }
  const { approvals, root } = await open(t, tree)
  const request = call('edit_file', { path: 'l/b' }, SORTS.mediumDestructive)
  const asker = new Scripted('a')
  await approvals('prompt', asker, { root }).decide(request, never)
  t.match(asker.asked[0]?.choices[2], { label: 'always, in this folder: exactly this call' })
  t.match(await approvals('prompt', NOBODY, { root }).check(request), { reason: 'grant' })
})

t.test('a grant for the session ends with it', async (t) => {
  const { approvals, advance } = await open(t)
  const request = call('edit_file', { path: 'a' }, SORTS.mediumDestructive)
  await approvals('prompt', new Scripted('s')).decide(request, never)
  const other = { ...request, session: 's2' }
  t.match(await approvals('prompt').decide(request, never), { verdict: 'run' })
  t.match(await approvals('prompt').decide(other, never), { verdict: 'deny' })
  advance(9 * 60 * 60 * 1_000)
  t.match(await approvals('prompt').decide(request, never), { verdict: 'deny' }, 'after 8 hours')
})

t.test('grants lift asks, and denials of workspace-write, never those of read-only', async (t) => {
  const { approvals, store } = await open(t)
  const request = call('shell_exec', { command: 'make' })
  await store.addGrant(GRANT)
  const cases: [Mode, string, Reason][] = [
    ['read-only', 'deny', 'read_only_mode'],
    ['workspace-write', 'run', 'grant'],
    ['prompt', 'run', 'grant'],
    ['allow', 'run', 'mode'],
    ['danger-full-access', 'run', 'mode'],
  ]
  for (const [mode, verdict, reason] of cases)
    t.match(await approvals(mode).decide(request, never), { verdict, reason }, mode)
})

t.test('a denial wins in every mode, over every grant, for every call', async (t) => {
  const { approvals, store } = await open(t)
  const { id } = await store.addGrant({ ...GRANT, tool: 'x', scope: 'deny' })
  await store.addGrant({ ...GRANT, tool: 'x' })
  for (const mode of MODES)
    for (const annotations of Object.values(SORTS)) {
      const asker = new Scripted('y')
      const decision = await approvals(mode, asker).decide(call('x', {}, annotations), never)
      t.match(decision, { verdict: 'deny', reason: 'deny_grant', grant: id }, mode)
      t.match(decision.denial?.hint, `tai approval revoke ${id}`)
      t.equal(asker.asked.length, 0)
    }
})

t.test('conditions of grants: narrow where they allow, broad where they deny', async (t) => {
  type Case = [Partial<Grant>, JsonObject, boolean]
  const cases: Case[] = [
    [{ commands: ['npm test'] }, { command: 'npm test' }, true],
    [{ commands: ['npm test'] }, { command: 'npm test -- --watch' }, true],
    [{ commands: ['npm test'] }, { command: 'npm tests' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test | sh' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test && rm x' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test `rm x`' }, false],
    [{ commands: ['npm test'] }, { path: 'npm test' }, false],
    [{ commands: [''] }, { command: 'rm x' }, false],
    [{ paths: ['src/**'] }, { path: 'src/a/b.ts' }, true],
    [{ paths: ['src/**'] }, { path: './src/.hidden' }, true],
    [{ paths: ['src/**'] }, { path: 'src/../etc' }, false],
    [{ paths: ['src/**'] }, { path: 'lib/src/a' }, false],
    [{ paths: ['**'] }, { path: '../x' }, false],
    [{ paths: ['src/**'] }, { from: 'src/a', to: 'lib/a' }, false],
    [{ paths: ['src/**'] }, { paths: ['src/a', 'lib'] }, false],
    [{ paths: ['src/**'] }, { command: 'ls' }, false],
    [{ paths: ['src/**'], commands: ['make'] }, { path: 'src/a', command: 'make' }, true],
    [{ paths: ['src/**'], commands: ['make'] }, { path: 'src/a', command: 'rm' }, false],
    [{ mode: 'prompt' }, {}, true],
    [{ mode: 'workspace-write' }, {}, false],
    [{ tool: 'other' }, {}, false],
    [{ session: 's1' }, {}, true],
    [{ session: 's2' }, {}, false],
    [{ expires: 1 }, {}, false],
    [{ scope: 'deny', commands: ['rm'] }, { command: 'true; rm -rf x' }, true],
    [{ scope: 'deny', commands: ['rm'] }, { command: 'echo $(rm x)' }, true],
    [{ scope: 'deny', commands: ['rm'] }, { command: 'rmdir x' }, false],
    [{ scope: 'deny', commands: ['rm'] }, { command: 'A=1 /bin/rm x' }, true],
    [{ scope: 'deny', commands: ['rm'] }, { command: 'rm x', env: { A: '1' } }, true],
    [{ scope: 'deny', commands: ['echo $A'] }, { command: 'echo $A' }, true],
    [{ commands: ['make'] }, { command: 'make', env: { PATH: '.' } }, false],
    [{ commands: ['make'] }, { command: 'make', stdin: 'x' }, false],
    [{ commands: ['make'] }, { command: 'MAKE=x make' }, false],
    [{ scope: 'deny', paths: ['.env'] }, { path: 'app/.ENV' }, true],
    [{ scope: 'deny', paths: ['ci'] }, { path: 'ci/build.yml' }, true],
    [{ scope: 'deny', paths: ['ci/deep/**'] }, { path: 'ci' }, true],
    [{ scope: 'deny', paths: ['ci/**'] }, { from: 'a', to: 'ci/a' }, true],
    [{ scope: 'deny', paths: ['ci/**'] }, { path: '.' }, true],
    [{ scope: 'deny', paths: ['ci/**'] }, { path: 'src' }, false],
  ]
  for (const [conditions, args, matches] of cases) {
    const { approvals, store } = await open(t)
    await store.addGrant({ ...GRANT, tool: 'tool', ...conditions })
    const { reason } = await approvals('prompt').decide(call('tool', args), never)
    const wanted = conditions.scope === 'deny' ? 'deny_grant' : 'grant'
    const name = `${JSON.stringify(conditions)} ${JSON.stringify(args)}`
    t.equal(reason, matches ? wanted : 'jit_no_approval', name)
  }
})

const sorted = (data: object) =>
  Object.fromEntries(Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1)))

t.test('every decision is audited, but a Low call that runs in silence', async (t) => {
  const { approvals, store } = await open(t)
  await approvals('prompt').decide(call('grep', {}, SORTS.low), never)
  await approvals('danger-full-access').decide(call('grep', {}, SORTS.low), never)
  t.strictSame(await store.listAudit({ limit: 9 }), [])
  const { id } = await store.addGrant({ ...GRANT, tool: 'made' })
  const request = { ...call('made', { a: 1 }), origin: 'srv' }
  await approvals('prompt').decide(request, never)
  await approvals('read-only').decide(call('made', { a: 1 }), never)
  await approvals('allow').decide(call('grep', {}, SORTS.low), never)
  const rows = await store.listAudit({ kind: 'approval', limit: 9 })
  const digest = callDigest('made', { a: 1 })
  const row = { tool: 'made', digest }
  t.strictSame(
    new Set(rows.map(({ data, session }) => JSON.stringify({ ...sorted(data), session }))),
    new Set(
      [
        { ...row, server: 'srv', mode: 'prompt', verdict: 'run', reason: 'grant', grant: id },
        {
          ...row,
          server: null,
          mode: 'read-only',
          verdict: 'deny',
          reason: 'read_only_mode',
          grant: null,
          args: '{"a":1}',
        },
        {
          tool: 'grep',
          digest: callDigest('grep', {}),
          server: null,
          mode: 'allow',
          verdict: 'run',
          reason: 'mode',
          grant: null,
        },
      ].map((data) => JSON.stringify({ ...sorted(data), session: 's1' })),
    ),
  )
})

t.test('a secret is not cut in half where a call is told of', async (t) => {
  const { approvals, store } = await open(t)
  const secret = 'hunter2-hunter2-hunter2'
  store.redactor.add('pw', secret)
  for (const before of [130, 140, 150]) {
    const request = call('made', { a: 'x'.repeat(before) + secret })
    await approvals('read-only').decide(request, never)
    const { say = '' } = await approvals('allow').decide(request, never)
    t.notMatch(say, 'hunter2')
  }
  t.notMatch(JSON.stringify(await store.listAudit({ limit: 9 })), 'hunter2')
})

t.test('mode allow says each call on one line', async (t) => {
  const { approvals } = await open(t)
  const request = call('shell_exec', { command: 'a\n\u001b[2J'.padEnd(500, 'x') })
  const { say = '', digest } = await approvals('allow').decide(request, never)
  t.match(say, `runs shell_exec (${digest().slice(0, 12)}) {"command":"a\\n`)
  t.notMatch(say, /\p{Cc}/u)
  t.match(say, /more characters/)
})

t.test('a plainly read-only command does not ask in mode prompt', async (t) => {
  const { approvals } = await open(t)
  const cases: [JsonObject, boolean][] = [
    [{ command: 'ls | sort' }, false],
    [{ command: 'ls -l src' }, true],
    [{ command: 'ls', timeout_s: 10, cwd: '.' }, true],
    [{ command: 'rm x' }, false],
    [{ command: 'git status' }, false],
    [{ command: 'ls', cwd: 'vendor' }, false],
    [{ command: 'ls', env: { A: 'x' } }, false],
    [{ command: 'cat', stdin: 'x' }, false],
  ]
  for (const [args, runs] of cases) {
    const { reason } = await approvals('prompt').decide(call('shell_exec', args), never)
    t.equal(reason, runs ? 'read_only_command' : 'jit_no_approval', JSON.stringify(args))
  }
  const plain = { command: 'ls' }
  t.match(await approvals('prompt').decide(call('process_start', plain), never), {
    verdict: 'deny',
  })
  for (const mode of ['read-only', 'workspace-write'] as const)
    t.match(await approvals(mode).decide(call('shell_exec', plain), never), { verdict: 'deny' })
})

const PLAIN = `ls
ls -la src
ls -R
ls 'name with space'
cat README.md package.json
cat -n src/a.ts
cat src/inner
cat not-there
head -n 20 src/a.ts
tail -5 log.txt
tail -n +3 log.txt
wc -l src/a.ts
pwd
echo "hello world"
grep -rn 'TODO' src
grep -E "^import .* from" src/a.ts
grep -rn -A3 --include='*.ts' "x" src
grep -m 5 -i x src/a.ts
find . -name '*.ts' -type f
find src -maxdepth 2 -not -path './node_modules/*'
stat -c %s src/a.ts`.split('\n')

const NOT_PLAIN = [
  ...String.raw`ls | sort
ls -L
ls -H out
cat -
cat out
cat out/secret
cat src/../../elsewhere/secret
cat out/../secret
cat lost
cat lost/x
cat ring
cat .tai/vault.db
head -n 1 .tai/vault.db
ls .tai
strings .tai/vault.db
strings @list
sort --files0-from=-
sort src/a.ts
wc --files0-from=list
du --files0-from=list
jq import
jq . src/a.ts
sha256sum -c list
md5sum src/a.ts
uniq src/a.ts
cut -c1 src/a.ts
tr a b
od src/a.ts
nl src/a.ts
diff src/a.ts log.txt
rg x
grep -f list x
grep -rf list x
grep --file=list x
grep -R x .
grep --exclude-from=list x
grep -o . src/a.ts
grep --recursive x out
grep -r x out
head -c 9 src/a.ts
tail -c 9 src/a.ts
tail -f log.txt
tail --follow=name log.txt
find -L . -name x
find -H out
find . -newer /etc/passwd
find . -files0-from list
find . -printf %p
find out -name x
cat 'out'/secret
cat o"ut"/secret
cat ''out
cat src/a.ts log.txt out/secret
ls -1 /
cat = /etc/passwd
stat -L out
stat --file-system /
ls; ls
ls && ls
ls || ls
echo a^b
git status
git status --short && git diff --stat
git log --oneline -n 5
git --no-pager log -p HEAD~3..HEAD^ -- src
git diff --cached
git diff main..dev
git show HEAD:src/a.ts
git branch --show-current
git branch -avv
git remote -v
git rev-parse --abbrev-ref HEAD
git blame -L 1,10 a.ts
git ls-files -o --exclude-standard
git grep -n foo
git --version
git rev-parse HEAD | cat
ls && git status
git status; ls
true || git log
git
GIT_DIR=x git status
/usr/bin/git status
node
node --version
cat x.js | node
echo 1 | python3
npm --version
uniq -- - -out
uniq - out
cat -f../x
grep -f../x y
date
date -s 2020-01-01
file a.bin
tree -L 2 src
rm -rf build
ls > out.txt
ls >> out.txt
cat < in.txt
ls 2>/dev/null
ls 2>&1
ls &
ls & rm x
ls |& cat
ls | tee out.txt
ls | xargs rm
ls; rm x
ls && rm x
ls || rm x
ls | sh
cat $(ls)
cat "$(ls)"
cat "$HOME/.ssh/id_rsa"
cat $HOME/x
cat *
ls *.ts
ls ?
ls [ab]
ls {a,b}
cat ~/.ssh/id_rsa
cat /etc/passwd
cat ../secret
cat src/../../secret
cat a/..
grep -f/etc/passwd x
rg --ignore-file=/etc/passwd x
rg --ignore-file=../x x
/bin/ls
./ls
FOO=1 ls
LD_PRELOAD=./x.so ls
env ls
command ls
eval ls
exec ls
sudo ls
bash -c ls
sh script.sh
node script.js
node -e 1
node --version --eval 1
python3 -c 1
perl -e 1
awk 1 file
sed -n 1p file
sed -i s/a/b/ file
find . -exec rm {} +
find . -exec rm '{}' ';'
find . -delete
find . -ok rm
find . -execdir rm
find . -fprint out
find . -fprintf out x
find . -fls out
find . '-delete'
find . -"delete"
sort -o out in
sort -ro out in
sort --output=out in
sort --outp=out in
sort --o out in
sort --compress-program=./x in
sort --comp ./x in
sort -T tmp in
sort "-o" out in
uniq in out
tree -o out
rg --pre ./x foo
rg --pre=./x foo
rg -z foo
rg -nz foo
rg --hostname-bin ./x foo
date -s 2020-01-01
date 010100002020
file -C -m x
git commit -m x
git add .
git checkout x
git push
git fetch
git clone x
git reset
git stash
git config --list
git -c core.pager=./x log
git -C vendor status
git --git-dir=x status
git --exec-path=x status
git -p log
git --paginate log
git --no-pager -c a=b log
git diff --output=out
git diff --outp=out
git log --output out
git diff --ext-diff
git diff --ext
git show --textconv x
git grep -O./x foo
git grep -nO./x foo
git grep --open-files-in-pager=./x foo
git grep --open foo
git branch new
git branch -d old
git branch -D old
git tag v1
git tag -d v1
git remote add x y
git remote update
git cat-file --filters x
git bisect run ./x
git submodule foreach ls
git
git --version --exec-path=x
cat a\ b
ls \
ls "a\"b"
ls 'unclosed
ls "unclosed
ls # comment
! ls
(ls)
{ ls; }
if true; then ls; fi
while true; do ls; done
ls;
ls &&
| ls
;
a
constructor
toString
cat <<EOF
cat <(ls)
curl example.com
wget x
ssh host ls
npm test
npm --version --prefix x
make
touch x
cp a b
mv a b
mkdir x
chmod +x a
ln -s a b
dd if=a of=b
kill 1
yes
less a
vim a
xxd -r a b
tar xf a
hostname x
printenv
ps eww`.split('\n'),
  '',
  ' ',
  'cat ${HOME}/x',
  'ls\nrm x',
  'ls\rrm x',
  "ls 'a\nb'",
  'ls \u0000',
  'ls `rm x`',
  `echo ${'a '.repeat(100_000)}`,
  'echo "`rm x`"',
  'ls \u001b[2J',
  'ls\u00a0x',
]

t.test('isReadOnlyCommand', async (t) => {
  const link = (to: string) => t.fixture('symlink', to)
  const at = fs.realpathSync(
    t.testdir({
      elsewhere: { secret: '' },
      root: {
        src: { 'a.ts': '', inner: link('a.ts') },
        'log.txt': '',
        list: '',
        out: link('../elsewhere'),
        lost: link('nowhere'),
        ring: link('ring'),
        '.tai': { 'vault.db': '' },
      },
    }),
  )
  const root = path.join(at, 'root')
  const inside = path.join(root, '.tai')
  for (const command of PLAIN)
    t.equal(isReadOnlyCommand(command, root, path.join(at, 'home')), true, command)
  for (const command of NOT_PLAIN)
    t.equal(isReadOnlyCommand(command, root, inside), false, JSON.stringify(command))
  for (const command of ['grep -r x', 'grep -rn x src', 'find . -name x', 'ls -R', 'ls -lR src'])
    t.equal(isReadOnlyCommand(command, root, inside), false, `${command} beside tai's home`)
  t.equal(isReadOnlyCommand('cat src/a.ts', root, inside), true)
})

const silent = () => new Promise<string>(() => {})

t.test('awaitAnswer ends with its wait and with its signal, and never rejects', async (t) => {
  t.equal(await awaitAnswer(5, never, silent), undefined)
  t.equal(await awaitAnswer(60_000, AbortSignal.abort(), async () => 'late'), undefined)
  t.equal(await awaitAnswer(60_000, never, () => Promise.reject(new Error('x'))), undefined)
  t.equal(await awaitAnswer(60_000, never, async () => 'yes'), 'yes')
})

t.test('a grant for once allows one run of exactly one call', async (t) => {
  const { approvals, store } = await open(t)
  const args = { command: 'make' }
  const request = call('shell_exec', args)
  const digest = callDigest('shell_exec', args)
  const { id } = await store.addGrant({ ...GRANT, scope: 'once', digest })
  const all = approvals('prompt')
  t.match(await all.check(call('shell_exec', { command: 'make x' })), { verdict: 'ask' })
  t.match(await all.check(request), { verdict: 'run', reason: 'grant_once' })
  const [first, second] = [await all.decide(request, never), await all.decide(request, never)]
  t.match(first, { verdict: 'run', reason: 'grant_once', grant: id })
  t.equal((await store.listGrants()).length, 1, 'looking uses nothing up')
  t.strictSame([await all.spend(first), await all.spend(second)], [true, false])
  t.match(await all.decide(request, never), { verdict: 'deny', reason: 'jit_no_approval' })
  await store.addGrant({ ...GRANT, scope: 'once', digest })
  for (const mode of ['allow', 'danger-full-access'] as const) {
    const decision = await approvals(mode).decide(request, never)
    t.ok(await approvals(mode).spend(decision))
  }
  await approvals('read-only').decide(request, never)
  t.equal((await store.listGrants()).length, 1, 'where it is not needed, it stays')
})

t.test('a digest approved at the start allows one call, and no denial or read-only', async (t) => {
  const { approvals, store } = await open(t)
  const request = call('shell_exec', { command: 'make' })
  const approved = new Set([callDigest('shell_exec', { command: 'make' }), 'f'.repeat(64)])
  const open1 = (mode: Mode) => approvals(mode, NOBODY, { approved })
  t.match(await open1('read-only').check(request), { reason: 'read_only_mode' })
  for (const mode of ['prompt', 'workspace-write'] as const)
    t.match(await open1(mode).check(request), { verdict: 'run', reason: 'preapproved' }, mode)
  const { id } = await store.addGrant({ ...GRANT, scope: 'deny' })
  t.match(await open1('prompt').check(request), { reason: 'deny_grant' })
  await store.revokeGrant(id)
  const [one, two] = [open1('prompt'), open1('prompt')]
  const decisions = [await one.decide(request, never), await two.decide(request, never)] as const
  t.strictSame([await one.spend(decisions[0]), await two.spend(decisions[1])], [true, false])
  t.match(await two.decide(request, never), { verdict: 'deny', reason: 'jit_no_approval' })
  t.equal(approved.size, 1)
})

t.test('each grant is judged, in the order they count, and says what it is not for', async (t) => {
  const { approvals, store, root } = await open(t, { src: {} })
  const add = (more: Partial<Grant>) => store.addGrant({ ...GRANT, ...more })
  await add({ scope: 'session', session: 's2' })
  await add({ mode: 'allow' })
  await add({ root: '/elsewhere' })
  await add({ commands: ['npm test'] })
  await add({ paths: ['lib/**'] })
  await add({ scope: 'once', digest: 'a'.repeat(64) })
  await add({ scope: 'deny', commands: ['rm'] })
  await add({})
  const judged = await approvals('prompt', NOBODY, { root }).grants({
    ...call('shell_exec', { command: 'make' }),
    paths: ['src/a'],
  })
  t.strictSame(
    judged.map(({ grant: { scope }, other }) => [scope, other]),
    [
      ['deny', 'command'],
      ['once', 'call'],
      ['always', undefined],
      ['always', 'path'],
      ['always', 'command'],
      ['always', 'folder'],
      ['always', 'mode'],
      ['session', 'session'],
    ],
  )
})

t.test('a child has the grants, the person and at most the mode of its parent', async (t) => {
  const { approvals } = await open(t)
  const asker = new Scripted('s')
  const parent = approvals('prompt', asker)
  const write = call('write_file', { path: 'a' }, SORTS.mediumDestructive)
  t.match(await parent.child().decide(write, never), { verdict: 'run' })
  t.match(await parent.decide(write, never), { verdict: 'run', reason: 'grant' })
  t.equal(asker.asked.length, 1)
  for (const mode of MODES)
    for (const own of MODES) {
      const tightest = MODES[Math.min(MODES.indexOf(mode), MODES.indexOf(own))]
      t.equal(approvals(mode).child(own).mode, tightest, `${own} under ${mode}`)
    }
})
