import t from 'tap'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { Processes, Redactor, SHELL_TOOLS, Workspace } from '../tai.ts'
import { makeWorld } from './fakes/vault.ts'
import { filled, row } from './fakes/bench.ts'
import type { JsonObject, ToolContext, ToolOutput } from '../tai.ts'

/** What the six tools need of a session, with a folder `sub` in its workspace. */
async function makeContext(dir: string): Promise<ToolContext> {
  const root = fs.realpathSync(dir)
  const redactor = new Redactor()
  redactor.add('pin', 'secret-value')
  fs.mkdirSync(path.join(root, 'work', 'sub'), { recursive: true })
  const env = { PATH: process.env['PATH'], TAI_HOME: '/x', SOME_API_KEY: 'k', LANG: 'C.UTF-8' }
  const world = makeWorld(path.join(root, 'home'), { env, cwd: root })
  const workspace = new Workspace(path.join(root, 'work'), world.home)
  const processes = new Processes(world, redactor)
  return { world, workspace, processes, store: { redactor } } as unknown as ToolContext
}

const call = (context: ToolContext, name: string, args: JsonObject): Promise<ToolOutput> =>
  row(name).run(filled(name, args), context, new AbortController().signal)

t.test('six tools, every parameter described', (t) => {
  t.strictSame(
    SHELL_TOOLS.map(({ name }) => name),
    [
      'shell_exec',
      'process_start',
      'process_output',
      'process_input',
      'process_stop',
      'process_list',
    ],
  )
  for (const { name, parameters } of SHELL_TOOLS)
    for (const [key, row] of Object.entries(parameters['properties'] as Record<string, JsonObject>))
      t.type(row['description'], 'string', `${name}.${key}`)
  t.end()
})

t.test('a command says what it printed and how it failed', async (t) => {
  const context = await makeContext(t.testdir())
  const cases: [args: JsonObject, text: string, isError: boolean][] = [
    [{ command: 'echo hi' }, 'hi', false],
    [{ command: 'true' }, '(no output)', false],
    [{ command: 'false' }, '[exit code 1]\n(no output)', true],
    [{ command: 'echo a; echo b >&2; exit 3' }, '[exit code 3]\na\n[stderr]\nb', true],
    [{ command: 'echo b >&2' }, '[stderr]\nb', false],
    [{ command: 'kill -KILL $$' }, '[ended by SIGKILL]\n(no output)', true],
    [{ command: 'cat', stdin: 'from stdin' }, 'from stdin', false],
    [{ command: 'cat' }, '(no output)', false],
    [{ command: 'basename $PWD', cwd: 'sub' }, 'sub', false],
    [{ command: 'echo $A', env: { A: 'x y' } }, 'x y', false],
    [{ command: 'env | grep -E "TAI|KEY"' }, '[exit code 1]\n(no output)', true],
  ]
  for (const [args, text, isError] of cases)
    t.match(await call(context, 'shell_exec', args), { text, isError }, String(args['command']))
  t.match(await call(context, 'shell_exec', { command: 'echo a; exit 2' }), {
    structured: { exit_code: 2, signal: null, stdout: 'a\n', stderr: '', timed_out: false },
  })
})

t.test('a time limit is named, and what was printed before it is kept', async (t) => {
  const context = await makeContext(t.testdir())
  const reply = await call(context, 'shell_exec', { command: 'echo early; sleep 60', timeout_s: 1 })
  t.match(reply, { isError: true, structured: { timed_out: true, exit_code: null } })
  t.match(reply.text, /^\[timed out after 1 s.*\]\nearly$/)
})

t.test('what must not run is refused with a reason', async (t) => {
  const context = await makeContext(t.testdir())
  const cases: [name: string, args: JsonObject, message: RegExp][] = [
    ['shell_exec', { command: 'pwd', cwd: '..' }, /outside the workspace/],
    ['shell_exec', { command: 'pwd', cwd: 'gone' }, /no folder .*gone/],
    [
      'shell_exec',
      { command: 'echo [redacted:pin] > .env' },
      /what shell_exec is given holds a mark/,
    ],
    [
      'shell_exec',
      { command: 'cat > .env', stdin: 'A=[redacted:pin]' },
      /what shell_exec is given holds a mark/,
    ],
    [
      'shell_exec',
      { command: 'true', env: { A: '[redacted:pin]' } },
      /what shell_exec is given holds a mark/,
    ],
    ['process_start', { command: 'pwd', cwd: '/' }, /outside the workspace/],
    [
      'process_input',
      { id: 'p1', text: '[redacted:pin]' },
      /what process_input is given holds a mark/,
    ],
    ['process_output', { id: 'p7' }, /no background process p7/],
    ['process_stop', { id: 'p7' }, /no background process p7/],
  ]
  for (const [name, args, message] of cases)
    await t.rejects(call(context, name, args), { name: 'TaiError', message }, `${message}`)
})

t.test('a background process is started, read, answered, listed and stopped', async (t) => {
  const context = await makeContext(t.testdir())
  t.teardown(() => context.processes.stopAll())
  const tell = (name: string, args: JsonObject) => call(context, name, args)
  t.equal((await tell('process_list', {})).text, 'no background processes')
  const command = 'echo ready secret-value; while read line; do echo "got $line"; done'
  const started = await tell('process_start', { command, name: 'echoer' })
  t.match(started, { text: /p1: running/ })
  t.equal(
    (await tell('process_output', { id: 'p1', wait_s: 10 })).text,
    'ready [redacted:pin]\n[p1: running; next offset 21]',
  )
  t.equal((await tell('process_input', { id: 'p1', text: 'x\n' })).text, 'written to p1')
  const read = await tell('process_output', { id: 'p1', since: 21, wait_s: 10 })
  t.equal(read.text, 'got x\n[p1: running; next offset 27]')
  t.match(
    (await tell('process_list', {})).text,
    /^p1 {2}running {2}pid \d+ {2}27 B {2}echoer: echo ready/,
  )
  await tell('process_input', { id: 'p1', text: '', eof: true })
  const last = await tell('process_output', { id: 'p1', since: 27, wait_s: 10 })
  t.equal(last.text, '(no new output)\n[p1: exit code 0; next offset 27]')
  await tell('process_start', { command: 'no-such-thing' })
  await tell('process_output', { id: 'p2', since: 9_999, wait_s: 10 }) // never so far: its end
  t.match(await tell('process_output', { id: 'p2' }), {
    text: /not found[^]*p2: exit code 127/,
  })
  await tell('process_start', { command: 'sleep 60' })
  t.equal((await tell('process_stop', { id: 'p3' })).text, 'p3: ended by SIGTERM')
})
