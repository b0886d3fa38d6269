// The permission table of the design, over every tool that exists, each outcome written out.
//
//   R runs   S runs, said in a line   A asks (denied where nobody can be asked)   D is denied
import t from 'tap'
import { annotationsOf, Approvals, denyPrompter, MODES, TOOLS, type Mode } from '../tai.ts'
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
  time_now: [{}, 'R R R S R'],
  system_info: [{}, 'R R R S R'],
  text_diff: [{}, 'R R R S R'],
  mcp_add: [{ source: 'x' }, 'D D A S R'],
  mcp_list: [{}, 'R R R S R'],
  mcp_enable: [{ server: 's' }, 'D D A S R'],
  mcp_disable: [{ server: 's' }, 'D R R S R'],
  mcp_remove: [{ server: 's' }, 'D D A S R'],
  mcp_tools: [{}, 'R R R S R'],
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
