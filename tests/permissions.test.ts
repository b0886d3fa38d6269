// The permission table of the design, over every tool that exists, each outcome written out.
//
//   R runs   S runs, said in a line   A asks (denied where nobody can be asked)   D is denied
import t from 'tap'
import {
  annotationsOf,
  Approvals,
  callDigest,
  denyPrompter,
  MODES,
  sleep,
  STORE_GLANCE,
  TOOLS,
  type Mode,
} from '../tai.ts'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { runMain, type Settings } from './fakes/outside.ts'
import { begin, serveHere, type Peer } from './fakes/served.ts'
import { folder, modelEnv } from './fakes/tai.ts'
import { never, openWorld, person } from './fakes/world.ts'

//                                 read-only workspace-write prompt allow danger-full-access
const TABLE: Record<string, [args: object, outcomes: string]> = {
  read_file: [{ path: 'a' }, 'R R R S R'],
  write_file: [{ path: 'a', content: '' }, 'D R A S R'],
  edit_file: [{ path: 'a', old: 'a', new: 'b' }, 'D R A S R'],
  apply_patch: [{ patch: '' }, 'D R A S R'],
  list_dir: [{}, 'R R R S R'],
  glob: [{ pattern: '*' }, 'R R R S R'],
  grep: [{ pattern: 'x' }, 'R R R S R'],
  file_info: [{ path: 'a' }, 'R R R S R'],
  move_path: [{ from: 'a', to: 'b' }, 'D R A S R'],
  delete_path: [{ path: 'a' }, 'D D A S R'],
  undo_edit: [{}, 'D R A S R'],
  shell_exec: [{ command: 'make' }, 'D D A S R'],
  process_start: [{ command: 'make' }, 'D D A S R'],
  process_output: [{ id: 'p1' }, 'R R R S R'],
  process_input: [{ id: 'p1', text: '' }, 'D D A S R'],
  process_stop: [{ id: 'p1' }, 'D D A S R'],
  process_list: [{}, 'R R R S R'],
  git_status: [{}, 'R R R S R'],
  git_diff: [{}, 'R R R S R'],
  git_log: [{}, 'R R R S R'],
  git_commit: [{ message: 'm' }, 'D R R S R'],
  git_branch: [{ action: 'delete', name: 'x' }, 'D R A S R'],
  web_fetch: [{ url: 'https://example.org' }, 'R R R S R'],
  web_search: [{ query: 'x' }, 'R R R S R'],
  http_request: [{ method: 'GET', url: 'https://example.org' }, 'D D A S R'],
  json_query: [{ query: '@' }, 'R R R S R'],
  sqlite_query: [{ path: 'a', sql: 'SELECT 1' }, 'R R R S R'],
  archive_create: [{ paths: ['a'], dest: 'a.zip' }, 'D R A S R'],
  archive_extract: [{ path: 'a.zip' }, 'D R A S R'],
  vault_read: [{ id: 'r' }, 'R R R S R'],
  vault_write: [{ content: 'x' }, 'D R R S R'],
  vault_search: [{ query: 'x' }, 'R R R S R'],
  vault_delete: [{ id: 'r' }, 'D D A S R'],
  todo_read: [{}, 'R R R S R'],
  todo_write: [{ items: [] }, 'D R R S R'],
  ask_user: [{ question: 'q' }, 'R R R S R'],
  select_tools: [{}, 'R R R S R'],
  agent_run: [{ task: 'x' }, 'D R R S R'],
  time_now: [{}, 'R R R S R'],
  system_info: [{}, 'R R R S R'],
  text_diff: [{}, 'R R R S R'],
  secret_list: [{}, 'R R R S R'],
  secret_request: [{ name: 'K', reason: 'r' }, 'D R R S R'],
  session_list: [{}, 'R R R S R'],
  session_read: [{ id: 's' }, 'R R R S R'],
  profile_list: [{}, 'R R R S R'],
  profile_switch: [{ name: 'p' }, 'D R R S R'],
  model_list: [{}, 'R R R S R'],
  model_switch: [{ model: 'm' }, 'D R R S R'],
  config_get: [{}, 'R R R S R'],
  config_set: [{ key: 'model', value: 'm' }, 'D D A S R'],
  audit_search: [{}, 'R R R S R'],
  mcp_add: [{ source: 'x' }, 'D D A S R'],
  mcp_list: [{}, 'R R R S R'],
  mcp_enable: [{ server: 's' }, 'D D A S R'],
  mcp_disable: [{ server: 's' }, 'D R R S R'],
  mcp_remove: [{ server: 's' }, 'D D A S R'],
  mcp_tools: [{}, 'R R R S R'],
  mcp_search: [{ query: 'x' }, 'R R R S R'],
  mcp_call: [{ server: 's', tool: 't' }, 'D D A S R'],
}

/** Where reading and changing share a tool, or a command only reads. */
const BY_ARGUMENTS: [string, object, string][] = [
  ['git_branch', { action: 'list' }, 'R R R S R'],
  ['git_branch', { action: 'create', name: 'x' }, 'D R R S R'],
  ['apply_patch', { patch: '', dry_run: true }, 'R R R S R'],
  ['archive_extract', { path: 'a.zip', list_only: true }, 'R R R S R'],
  ['vault_write', { content: 'x', id: 'r' }, 'D R A S R'],
  ['shell_exec', { command: 'ls -l' }, 'D D R S R'],
  ['shell_exec', { command: 'ls; rm a' }, 'D D A S R'],
  ['shell_exec', { command: 'ls', stdin: 'x' }, 'D D A S R'],
]

t.strictSame(
  TOOLS.map((row) => row.name).toSorted(),
  Object.keys(TABLE).toSorted(),
  'the table names every tool',
)

const rows: [string, object, string][] = [
  ...Object.entries(TABLE).map(([name, [args, outcomes]]): [string, object, string] => [
    name,
    args,
    outcomes,
  ]),
  ...BY_ARGUMENTS,
]
const w = await openWorld()
t.teardown(w.close)

t.test('every tool in every mode', async (t) => {
  for (const [name, args, outcomes] of rows)
    for (const [i, mode] of MODES.entries()) {
      const row = TOOLS.find((candidate) => candidate.name === name)!
      const defaults = Object.entries(Object(row.parameters['properties'])).flatMap(
        ([key, schema]) => ('default' in Object(schema) ? [[key, Object(schema).default]] : []),
      )
      const request = {
        tool: name,
        args: args as never,
        digest: () => callDigest(name, args as never),
        annotations: annotationsOf(row, { ...Object.fromEntries(defaults), ...args }),
        session: w.session,
      }
      const wanted = outcomes.split(' ')[i]
      t.equal(await outcomeOf(mode, request), wanted, `${name} ${JSON.stringify(args)} in ${mode}`)
    }
})

/** What the engine does, seen from outside: with a person who says yes, and with nobody. */
async function outcomeOf(mode: Mode, request: Parameters<Approvals['decide']>[0]): Promise<string> {
  const asked = person('y')
  const options = { mode, store: w.store, world: w.world, root: w.root }
  const withPerson = await new Approvals({ ...options, prompter: asked }).decide(request, never)
  const alone = await new Approvals({ ...options, prompter: denyPrompter }).decide(request, never)
  if (asked.questions.length > 0)
    return withPerson.verdict === 'run' && alone.verdict === 'deny' ? 'A' : '?'
  if (alone.verdict === 'deny') return 'D'
  return alone.say === undefined ? 'R' : 'S'
}

// The same in whole runs: on a terminal, where a person says yes; in a pipe; and served.

const CALLS: [sort: string, name: string, args: Record<string, string | object>][] = [
  ['Low', 'list_dir', {}],
  ['Medium', 'todo_write', { items: [] }],
  ['Medium, destructive', 'write_file', { path: 'made', content: 'x' }],
  ['High', 'shell_exec', { command: 'touch made' }],
  ['Critical', 'vault_delete', { id: 'none' }],
]
type Where = 'terminal' | 'piped' | 'served'
const BY_PLACE: Record<Mode | 'usual', Record<Where, string>> = {
  'read-only': { terminal: 'R D D D D', piped: 'R D D D D', served: 'R D D D D' },
  'workspace-write': { terminal: 'R R R D D', piped: 'R R R D D', served: 'R R R D D' },
  prompt: { terminal: 'R R A A A', piped: 'R R D D D', served: 'R R D D D' },
  allow: { terminal: 'S S S S S', piped: 'S S S S S', served: 'S S S S S' },
  'danger-full-access': { terminal: 'R R R R R', piped: 'R R R R R', served: 'R R R R R' },
  usual: { terminal: 'R R A A A', piped: 'R R D D D', served: 'R R R R R' },
}
const DENIALS: Record<string, [reason: string, rule: string, hint: string]> = {
  'read-only': [
    'read_only_mode',
    'mode read-only changes nothing',
    '--permission-mode workspace-write or prompt',
  ],
  'workspace-write': [
    'workspace_write_mode',
    'mode workspace-write changes only files',
    'tai approval grant TOOL',
  ],
  prompt: [
    'jit_no_approval',
    'it needs an approval, and nobody can be asked',
    '--auto, or tai approval grant TOOL',
  ],
}

/** What a denied call is told. */
function denial(mode: string, tool: string, args: object) {
  const [reason = '', rule, hint = ''] = DENIALS[mode] ?? []
  const digest = callDigest(tool, args as never)
  const details = `${tool} (${digest.slice(0, 12)}) was not run: ${rule}`
  return { tool, details, reason, mode, digest, hint: hint.replace('TOOL', tool) }
}

/** One turn in which the model makes all the calls; a letter for each. */
async function played(mode: Mode | 'usual', settings: Settings) {
  const script: ModelTurn[] = [
    { calls: CALLS.map(([, name, args]) => ({ name, args })) },
    { text: 'done' },
  ]
  const model = await startModel(script)
  const asked = person('y', 'y', 'y', 'y', 'y')
  const flags = mode === 'usual' ? [] : ['--permission-mode', mode]
  const env = modelEnv(model)
  const prompter = settings.terminal ? asked : denyPrompter
  const run = await runMain([...flags, 'go'], { ...settings, env, prompter })
  await model.close()
  const replies: { content: string }[] = model.requests[1]?.body.messages.slice(-CALLS.length)
  const letters = CALLS.map(([, name, args], i) => {
    const { details, hint } = denial(mode === 'usual' ? 'prompt' : mode, name, args)
    if (replies[i]?.content === `${details}\n${hint}`) return run.err.includes(details) ? 'D' : '?'
    if (asked.questions.some((question) => question.startsWith(`${name} (`))) return 'A'
    return new RegExp(`^tai: runs ${name} \\([0-9a-f]{12}\\)`, 'm').test(run.err) ? 'S' : 'R'
  })
  return letters.join(' ')
}

async function servedLetter(
  peer: Peer,
  mode: string,
  [name, args]: [string, object],
  said: () => string,
) {
  const before = said().length
  const { status, body } = await peer.call(name, args as never)
  if (body.result) return said().slice(before).includes(`runs ${name} (`) ? 'S' : 'R'
  const data = denial(mode, name, args)
  const message = `${data.details}\n${data.hint}`
  t.strictSame([status, body.error], [200, { code: -32001, message, data }], `${name} in ${mode}`)
  return 'D'
}

for (const [mode, wanted] of Object.entries(BY_PLACE))
  t.test(`mode ${mode}, on a terminal, in a pipe and served`, async (t) => {
    const place = () => ({ home: folder(), cwd: folder() })
    t.equal(await played(mode as Mode, { ...place(), terminal: true }), wanted.terminal, 'terminal')
    t.equal(await played(mode as Mode, place()), wanted.piped, 'piped')
    const args = mode === 'usual' ? [] : ['--permission-mode', mode]
    const server = await serveHere(t, { args, ...place() })
    const peer = await begin(server)
    const letters: string[] = []
    for (const [, name, given] of CALLS)
      letters.push(await servedLetter(peer, mode, [name, given], () => server.err.text))
    t.equal(letters.join(' '), wanted.served, 'served')
  })

t.test(
  'grants and digests, served: what they lift, and what is left when they are used',
  async (t) => {
    const home = folder()
    const [, name, args] = CALLS[3]!
    const digest = callDigest(name, args as never)
    const grant = async (...words: string[]) => {
      const run = await runMain(['approval', ...words], { home })
      await sleep(2 * STORE_GLANCE) // until a server that runs has seen it
      return run
    }
    const server = (mode: string, ...more: string[]) =>
      serveHere(t, { home, args: ['--permission-mode', mode, ...more] })
    for (const mode of ['workspace-write', 'prompt']) {
      const peer = await begin(await server(mode, '--approve-digest', digest))
      const other = await begin(peer.server)
      t.match(await peer.call(name, args as never), { body: { result: {} } }, `approved in ${mode}`)
      const again = { body: { error: { code: -32001, data: denial(mode, name, args) } } }
      t.match(await other.call(name, args as never), again, 'in no other session of the run')
      t.match(await grant('grant', name, digest, '--once'), { code: 0 })
      t.match(await peer.call(name, args as never), { body: { result: {} } }, `granted in ${mode}`)
      t.match(await peer.call(name, args as never), again)
    }
    const strict = await begin(await server('read-only', '--approve-digest', digest))
    await grant('grant', name)
    t.match(await strict.call(name, args as never), { body: { error: { code: -32001 } } })
    const { out } = await grant('deny', name, '--json')
    const { id } = JSON.parse(out)
    const open = await begin(await server('danger-full-access', '--approve-digest', digest))
    const { body } = await open.call(name, args as never)
    const details = `${name} (${digest.slice(0, 12)}) was not run: grant ${id} denies it, in every mode`
    t.strictSame(body.error, {
      code: -32001,
      message: `${details}\ntai approval revoke ${id}`,
      data: {
        tool: name,
        details,
        reason: 'deny_grant',
        mode: 'danger-full-access',
        digest,
        hint: `tai approval revoke ${id}`,
      },
    })
  },
)
