// Whole tasks through the built binary: several steps of a scripted model on a real workspace,
// and what is left in files, audit and session after it.
import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { folder, tai } from './fakes/tai.ts'

const settings = (url: string) => ({
  OPENAI_BASE_URL: `${url}/v1`,
  OPENAI_API_KEY: 'k',
  TAI_MODEL: 'openai/m',
})

/** A project whose test fails. */
function brokenProject(): string {
  const work = folder()
  writeFileSync(join(work, 'sum.js'), 'export const sum = (a, b) => a - b\n')
  writeFileSync(
    join(work, 'test.js'),
    "import { sum } from './sum.js'\nif (sum(2, 3) !== 5) { console.error('sum is wrong'); process.exit(1) }\nconsole.log('all good')\n",
  )
  writeFileSync(join(work, 'package.json'), '{"type":"module"}')
  return work
}

/** How a model finds and mends the fault, with one wrong turn. */
function fixingScript(): ModelTurn[] {
  const node = process.execPath
  return [
    {
      calls: [
        { name: 'read_file', args: { path: 'sum.js' } },
        { name: 'read_file', args: { path: 'test.js' } },
      ],
    },
    { calls: [{ name: 'edit_file', args: { path: 'sum.js', old: 'a - b', new: 'a * b' } }] },
    { calls: [{ name: 'shell_exec', args: { command: `${node} test.js` } }] },
    { calls: [{ name: 'edit_file', args: { path: 'sum.js', old: 'a * b', new: 'a + b' } }] },
    { calls: [{ name: 'shell_exec', args: { command: `${node} test.js` } }] },
    { text: 'sum.js added wrongly; it is fixed and the test passes.' },
  ]
}

/** The calls on record, oldest first, each with what came of it. */
async function auditOf(home: string): Promise<string[]> {
  const run = await tai(['audit', 'list', '--kind', 'tool-call', '--json'], { home })
  const rows: { data: { tool: string; outcome: string } }[] = JSON.parse(run.out).entries
  return rows.map(({ data }) => `${data.tool} ${data.outcome}`).toReversed()
}

t.test('read, edit, run the test, see it fail, fix, run again', async (t) => {
  const home = folder()
  const work = brokenProject()
  const model = await startModel(fixingScript())
  t.teardown(() => model.close())
  const run = await tai(['--auto', '--json', 'the test fails, fix it'], {
    env: settings(model.url),
    home,
    cwd: work,
  })
  t.equal(run.code, 0, run.err)
  const result = JSON.parse(run.out)
  t.match(result, { answer: /fixed/, steps: 6, exit: 0 })
  t.same(
    result.tools.map((it: { name: string; ok: boolean }) => [it.name, it.ok]),
    [
      ['read_file', true],
      ['read_file', true],
      ['edit_file', true],
      ['shell_exec', false],
      ['edit_file', true],
      ['shell_exec', true],
    ],
  )
  t.equal(readFileSync(join(work, 'sum.js'), 'utf8'), 'export const sum = (a, b) => a + b\n')
  t.match(model.requests[3]?.body.messages.at(-1).content, /sum is wrong/)
  t.match(model.requests[5]?.body.messages.at(-1).content, /all good/)
  t.strictSame(await auditOf(home), [
    'read_file ok',
    'read_file ok',
    'edit_file ok',
    'shell_exec error',
    'edit_file ok',
    'shell_exec ok',
  ])
  t.equal((await tai(['audit', 'verify'], { home })).code, 0)
  const session = JSON.parse(
    (await tai(['session', 'show', result.session, '--json'], { home })).out,
  )
  t.same(
    session.messages.map((it: { message: { role: string } }) => it.message.role).join(' '),
    `user assistant tool tool ${'assistant tool '.repeat(4)}assistant`,
  )
  const markdown = await tai(['session', 'export', result.session], { home })
  t.match(markdown.out, /# the test fails, fix it[\s\S]*## Tool shell_exec/)
  model.push({ calls: [{ name: 'undo_edit', args: { steps: 2 } }] }, { text: 'undone' })
  const undo = await tai(['--auto', '-c', 'undo both edits'], {
    env: settings(model.url),
    home,
    cwd: work,
  })
  t.equal(undo.code, 0, undo.err)
  t.equal(readFileSync(join(work, 'sum.js'), 'utf8'), 'export const sum = (a, b) => a - b\n')
})

t.test(
  'f09: with nobody can a risky call is denied, whatever is piped in; --auto and --yolo run it',
  async (t) => {
    const work = folder()
    const call: ModelTurn = {
      calls: [{ name: 'shell_exec', args: { command: 'touch deleted_all' } }],
    }
    const model = await startModel([])
    t.teardown(() => model.close())
    const made = () => existsSync(join(work, 'deleted_all'))
    model.push(call, { text: 'could not' })
    const piped = await tai(['do it'], {
      env: settings(model.url),
      cwd: work,
      stdin: 'y\ny\nyes\n',
    })
    t.match(piped, { code: 0, out: 'could not\n' })
    t.equal(made(), false)
    t.match(model.requests.at(-1)?.body.messages.at(-1).content, /nobody can/)
    t.match(piped.err, /shell_exec/)
    model.push(call, { text: 'done' })
    const auto = await tai(['--auto', 'ask', 'do it'], { env: settings(model.url), cwd: work })
    t.match(auto, { code: 0, out: 'done\n', err: /shell_exec/ })
    t.equal(made(), true)
    spawnSync('rm', [join(work, 'deleted_all')])
    model.push(call, { text: 'done' })
    const yolo = await tai(['--yolo', 'ask', 'do it'], { env: settings(model.url), cwd: work })
    t.match(yolo, { code: 0, out: 'done\n', err: '' })
    t.equal(made(), true)
  },
)

t.test('what the model says on the way to a call is not the answer', async (t) => {
  const model = await startModel([
    { text: 'Let me look.', calls: [{ name: 'time_now', args: {} }] },
    { text: 'Noon.' },
  ])
  t.teardown(() => model.close())
  t.match(await tai(['what time is it?'], { env: settings(model.url) }), {
    code: 0,
    out: 'Noon.\n',
  })
})

t.test('tools stay in the workspace, in every mode', async (t) => {
  const outside = folder()
  writeFileSync(join(outside, 'secret.txt'), 'outside')
  const model = await startModel([
    {
      calls: [
        { name: 'read_file', args: { path: join(outside, 'secret.txt') } },
        { name: 'write_file', args: { path: '../x.txt', content: 'x' } },
      ],
    },
    { text: 'no' },
  ])
  t.teardown(() => model.close())
  await tai(['--yolo', 'go'], { env: settings(model.url) })
  const replies = model.requests[1]?.body.messages.filter(
    (m: { role: string }) => m.role === 'tool',
  )
  for (const reply of replies) t.match(reply.content, /outside|workspace/)
  t.notMatch(JSON.stringify(replies), '"outside"')
})
