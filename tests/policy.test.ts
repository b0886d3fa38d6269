import * as fs from 'node:fs'
import * as path from 'node:path'
import t, { type Test } from 'tap'
import {
  type Annotations,
  annotate,
  type ApprovalOptions,
  type ApprovalRequest,
  Approvals,
  callDigest,
  type Choice,
  type Decision,
  type Grant,
  isReadOnlyCommand,
  type JsonObject,
  type Mode,
  MODES,
  type Prompter,
  type Reason,
  riskOf,
  RULES,
  type Ruling,
  Store,
  tighterMode,
  VERDICTS,
  type World,
} from '../tai.ts'

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
async function open(t: Test) {
  const home = fs.realpathSync(t.testdir({ home: {} }))
  let now = 1_000_000
  const world: World = {
    env: {},
    platform: 'linux',
    cwd: home,
    home: path.join(home, 'home'),
    pid: 1,
    now: () => now,
    randomBytes: (size) => process.getBuiltinModule('node:crypto').randomBytes(size),
  }
  const store = await Store.open(world)
  t.teardown(() => store.close())
  const approvals = (
    mode: Mode,
    prompter: Prompter = NOBODY,
    more: Partial<ApprovalOptions> = {},
  ) => new Approvals({ mode, store, prompter, world, ...more })
  return { world, store, approvals, advance: (ms: number) => (now += ms) }
}

const call = (
  tool: string,
  args: JsonObject = {},
  annotations: Annotations = SORTS.high,
): ApprovalRequest => ({ tool, args, annotations, session: 's1' })

const GRANT: Omit<Grant, 'id' | 'created'> = {
  tool: 'shell_exec',
  scope: 'always',
  mode: undefined,
  digest: undefined,
  session: undefined,
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
  t.equal(tighterMode('allow', 'prompt'), 'prompt')
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
    const decision: Decision = await approvals(mode).decide(request, never)
    t.match(decision, { verdict: 'deny', reason, say: undefined, grant: undefined })
    t.match(decision.denial?.message, `shell_exec (${decision.digest.slice(0, 12)}) was not run: `)
    t.ok(decision.denial?.message.endsWith(RULES[reason].split('; ')[0] ?? '-'))
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
  const request = { ...call('delete_all', args), origin: 'ev\u001b]il', detail: '-a\n+b' }
  const decision = await approvals('prompt', asker).decide(request, never)
  t.match(decision, { verdict: 'deny', reason: 'jit_user_denied' })
  const digest = callDigest('delete_all', args)
  t.equal(decision.digest, digest)
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
      'Allow it?',
    ].join('\n'),
  )
})

t.test('a call too large to show says how much is missing', async (t) => {
  const { approvals } = await open(t)
  const asker = new Scripted('n')
  const request = call('write', { content: 'é'.repeat(20_000) }, SORTS.mediumDestructive)
  await approvals('prompt', asker).decide(request, never)
  t.match(asker.asked[0]?.question, /… \(3625 more characters\)\nAllow it\?$/)
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
    { key: 's', label: 'for this session: commands that begin with "npm run build"' },
    { key: 'a', label: 'always: exactly this call' },
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
    passes: [{ command: 'npm run build' }, { command: 'npm run build -- --watch' }],
    asks: [
      { command: 'npm run builder' },
      { command: 'npm run' },
      { command: 'npm run build; rm -rf x' },
      { command: 'npm run build > x' },
      { command: 'npm run build $(rm x)' },
      { command: 'npm run build\nrm x' },
    ],
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
    args: { path: './src/../app/[id].ts' },
    sort: SORTS.mediumDestructive,
    passes: [{ path: 'app/[id].ts' }],
    asks: [{ path: 'app/i.ts' }, { path: 'x/app/[id].ts' }],
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
    passes: [{ path: 'build/' }],
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

t.test('a grant for the session ends with it', async (t) => {
  const { approvals, advance } = await open(t)
  const request = call('edit_file', { path: 'a' }, SORTS.mediumDestructive)
  await approvals('prompt', new Scripted('s')).decide(request, never)
  const other = { ...request, session: 's2' }
  t.match(await approvals('prompt').decide(request, never), { verdict: 'run' })
  t.match(await approvals('prompt').decide(other, never), { verdict: 'deny' })
  const child = approvals('prompt').child('s1')
  t.match(await child.decide(other, never), { verdict: 'run' }, 'a sub-agent inherits it')
  advance(9 * 60 * 60 * 1_000)
  t.match(await approvals('prompt').decide(request, never), { verdict: 'deny' }, 'after 8 hours')
})

t.test('a sub-agent is never looser than its parent', async (t) => {
  const { approvals } = await open(t)
  for (const mode of MODES)
    for (const wanted of MODES) {
      const child = approvals(mode).child('s1', wanted)
      t.ok(MODES.indexOf(child.mode) <= MODES.indexOf(mode), `${wanted} under ${mode}`)
      t.equal(child.mode, tighterMode(mode, wanted))
    }
  t.equal(approvals('allow').child('s1').mode, 'allow')
})

t.test('a once-grant is for one call with exactly these arguments', async (t) => {
  const { approvals, store } = await open(t)
  const request = call('shell_exec', { command: 'rm x' })
  const digest = callDigest('shell_exec', { command: 'rm x' })
  await store.addGrant({ ...GRANT, scope: 'once' })
  t.match(
    await approvals('prompt').decide(request, never),
    { verdict: 'deny' },
    'no digest, no use',
  )
  const { id } = await store.addGrant({ ...GRANT, scope: 'once', digest })
  const ruling: Ruling = await approvals('prompt').check(request)
  t.match(ruling, { verdict: 'run', reason: 'grant', grant: { id } }, 'looking uses nothing up')
  const wrong = call('shell_exec', { command: 'rm y' })
  t.match(await approvals('prompt').decide(wrong, never), { verdict: 'deny' })
  t.match(await approvals('prompt').decide(request, never), { verdict: 'run', grant: id })
  t.match(await approvals('prompt').decide(request, never), { verdict: 'deny' }, 'used up')
  await store.addGrant({ ...GRANT, scope: 'once', digest })
  await store.addGrant(GRANT)
  await approvals('prompt').decide(request, never)
  t.equal((await store.listGrants()).length, 3, 'a grant that lasts is taken before one for once')
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
    [{ commands: ['npm test'] }, { cmd: 'npm test' }, true],
    [{ commands: ['npm test'] }, { command: 'npm tests' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test | sh' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test && rm x' }, false],
    [{ commands: ['npm test'] }, { command: 'npm test `rm x`' }, false],
    [{ commands: ['npm test'] }, { path: 'npm test' }, false],
    [{ commands: [''] }, { command: 'rm x' }, false],
    [{ paths: ['src/**'] }, { path: 'src/a/b.ts' }, true],
    [{ paths: ['src/**'] }, { path: './src/.hidden' }, true],
    [{ paths: ['src/**'] }, { file_path: 'src/a' }, true],
    [{ paths: ['src/**'] }, { path: 'src/../etc' }, false],
    [{ paths: ['src/**'] }, { path: 'lib/src/a' }, false],
    [{ paths: ['**'] }, { path: '../x' }, false],
    [{ paths: ['src/**'] }, { from: 'src/a', to: 'lib/a' }, false],
    [{ paths: ['src/**'] }, { paths: ['src/a', 'lib'], dest: 'src/x.zip' }, false],
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

t.test('mode allow says each call on one line', async (t) => {
  const { approvals } = await open(t)
  const request = call('shell_exec', { command: 'a\n\u001b[2J'.padEnd(500, 'x') })
  const { say = '', digest } = await approvals('allow').decide(request, never)
  t.match(say, `runs shell_exec (${digest.slice(0, 12)}) {"command":"a\\n`)
  t.notMatch(say, /\p{Cc}/u)
  t.match(say, /more characters/)
})

t.test('a plainly read-only command does not ask in mode prompt', async (t) => {
  const { approvals } = await open(t)
  const cases: [JsonObject, boolean][] = [
    [{ command: 'ls | sort' }, true],
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
cat README.md package.json
head -n 20 src/a.ts
tail -5 log.txt
wc -l src/a.ts
pwd
echo "hello world"
grep -rn 'TODO' src
grep -E "^import .* from" tai.ts | head -5
rg -n --hidden 'foo|bar' src
rg 'a.*b$' -g '*.ts'
find . -name '*.ts' -type f
find src -maxdepth 2 -not -path './node_modules/*' | sort | uniq -c
sort -rn -k2,2 data.txt
cat a | tr a-z A-Z | cut -d, -f2
stat a.ts; du -sh src
jq '.name' package.json
diff -u a.txt b.txt
ls 'name with space'
uname -a || true`.split('\n')

const NOT_PLAIN = [
  ...String.raw`git status
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
  'echo "`rm x`"',
  'ls \u001b[2J',
  'ls\u00a0x',
]

t.test('isReadOnlyCommand', async (t) => {
  for (const command of PLAIN) t.equal(isReadOnlyCommand(command), true, command)
  for (const command of NOT_PLAIN)
    t.equal(isReadOnlyCommand(command), false, JSON.stringify(command))
})
