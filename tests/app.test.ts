import t from 'tap'
import { writeFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { App, Given, interruptsOf, UsageError, type AppOptions } from '../tai.ts'
import { outsideOf, runMain } from './fakes/outside.ts'
import { folder } from './fakes/tai.ts'

const given = (...names: string[]) => new Given(new Map(names.map((name) => [name, ['true']])))

function open(options: Partial<AppOptions> & { env?: Record<string, string>; home?: string } = {}) {
  const { env, home, ...rest } = options
  const outside = outsideOf({ ...(env && { env }), ...(home !== undefined && { home }) })
  return { app: new App({ ...outside, given: given(), ...rest }), ...outside }
}

t.test('Ctrl-C goes to who has claimed it; pressed again, it ends the run at once', async (t) => {
  const heard: string[] = []
  const interrupts = interruptsOf(
    () => heard.push('end'),
    () => heard.push('leave'),
  )
  {
    using claim = interrupts.claim(() => heard.push('claimed'))
    t.ok(claim)
    interrupts.press()
    interrupts.press()
  }
  interrupts.press()
  t.strictSame(heard, ['claimed', 'leave', 'end'])
})

t.test('one vault and one set of settings a run, and an end for all', async (t) => {
  const { app } = open()
  t.equal(await app.store(), await app.store())
  t.equal(await app.config(), await app.config())
  const ended: string[] = []
  app.own('first', (part) => void ended.push(part))
  app.own('second', (part) => void ended.push(part))
  t.ok(app.http)
  await app.close()
  t.strictSame(ended, ['second', 'first'])
  t.throws(() => app.own('late', () => {}))
})

t.test(
  'what a person is told goes to stderr, redacted and visible; quiet silences it',
  async (t) => {
    const { app, err } = open({ env: { DB_PASSWORD: 'hunter2-secret' } })
    app.notice('using hunter2-secret \u001b[2J')
    app.report(new UsageError('bad hunter2-secret', { hint: 'do better' }))
    t.equal(
      err.text,
      'tai: using [redacted:DB_PASSWORD] \\e[2J\ntai: bad [redacted:DB_PASSWORD]\n  do better\n',
    )
    const quiet = open({ given: given('quiet') })
    quiet.app.notice('x')
    t.equal(quiet.err.text, '')
  },
)

t.test('print gives text or JSON', async (t) => {
  const text = open()
  text.app.print({ a: 1 }, 'one')
  t.equal(text.out.text, 'one\n')
  const json = open({ given: given('json') })
  json.app.print({ a: 1 }, 'one')
  t.equal(json.out.text, '{"a":1}\n')
})

t.test('settings come from flags, and a broken file is a usage error with its place', async (t) => {
  const home = folder()
  const flags = new Given(
    new Map([
      ['yolo', ['true']],
      ['max-steps', ['7']],
    ]),
  )
  const { app } = open({ given: flags, home })
  const config = await app.config()
  t.strictSame(
    [config.get('permission_mode'), config.number('max_steps')],
    ['danger-full-access', 7],
  )
  await app.close()
  mkdirSync(join(home, '.tai'), { recursive: true })
  writeFileSync(join(home, '.tai', 'config.toml'), 'model = "a"\nmax_steps = \n')
  await t.rejects(open({ home }).app.config(), { exitCode: 2, message: /config\.toml.*2/ })
})

t.test('--root is the workspace', async (t) => {
  const { app, world } = open({ given: new Given(new Map([['root', ['sub']]])) })
  t.equal(app.root, join(world.cwd, 'sub'))
})

t.test(
  'without a vault that can be written, a verb fails, and says why',
  { skip: process.platform !== 'linux' && 'it has no folder that nobody can write' },
  async (t) => {
    const run = (...words: string[]) => runMain(words, { home: '/sys', cwd: folder() })
    for (const line of [
      'mcp trust deny evil',
      'mcp trust allow evil',
      'mcp add --yes -- node x',
      'approval deny shell_exec',
      'config set max_steps 3',
      'config unset max_steps',
      'profile create x',
      'seal on',
      'config list',
      'mcp list',
      'approval check read_file',
    ]) {
      const ended = await run(...line.split(' '))
      t.match(ended, { code: 1, out: '', err: /vault.db cannot be written\n.*TAI_HOME/ }, line)
    }
  },
)
