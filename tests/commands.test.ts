import t from 'tap'
import { COMMANDS, TOOLS } from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { runMain } from './fakes/outside.ts'
import { person } from './fakes/world.ts'
import { folder } from './fakes/tai.ts'

const json = (run: { out: string }) => JSON.parse(run.out)

t.test(
  'each command explains itself, and every verb that shows something takes --json',
  async (t) => {
    const home = folder()
    for (const { name, verbs } of COMMANDS) {
      const help = await runMain([name, '--help'], { home })
      t.equal(help.code, 0)
      for (const verb of verbs) t.match(help.out, verb.help, `${name} ${verb.name}`)
      for (const verb of verbs.filter(
        (it) => /^(list|path|status|explain)$/.test(it.name) && it.args === '',
      )) {
        const run = await runMain([name, verb.name, '--json'], { home })
        t.match(run, { code: 0, err: '' }, `${name} ${verb.name}`)
        t.doesNotThrow(() => json(run))
      }
    }
  },
)

t.test(
  'a secret is asked for, stored, listed without its value, and gone when deleted',
  async (t) => {
    const home = folder()
    const typed = person('s3cret-value')
    t.match(await runMain(['secret', 'set', 'API_KEY'], { home, prompter: typed }), {
      code: 0,
      out: 'stored API_KEY\n',
    })
    const list = await runMain(['secret', 'list', '--json'], { home })
    t.match(json(list), { secrets: [{ name: 'API_KEY' }] })
    t.notMatch(list.out, 's3cret-value')
    t.match(await runMain(['secret', 'delete', 'API_KEY'], { home }), { code: 0 })
    t.match(await runMain(['secret', 'delete', 'API_KEY'], { home }), {
      code: 1,
      err: /no API_KEY\n.*secret list/,
    })
    t.match(await runMain(['secret', 'set', 'bad name'], { home, prompter: person('value-1') }), {
      code: 2,
      err: /no name for a secret/,
    })
  },
)

t.test('the seal goes on, round, and off, and the wrong passphrase opens nothing', async (t) => {
  const home = folder()
  await runMain(['secret', 'set', 'API_KEY'], { home, prompter: person('s3cret-value') })
  const one = { TAI_SEAL_PASSPHRASE: 'first passphrase' }
  t.match(await runMain(['seal', 'on'], { home, env: one }), { code: 0 })
  t.match(await runMain(['seal', 'on'], { home, env: one }), { code: 1, err: /sealed already/ })
  t.match(json(await runMain(['seal', 'status', '--json'], { home })), { on: true })
  const two = { ...one, TAI_SEAL_NEW_PASSPHRASE: 'second passphrase' }
  t.match(await runMain(['seal', 'rotate'], { home, env: two }), { code: 0 })
  t.match(await runMain(['seal', 'off'], { home, env: one }), { code: 1, err: /passphrase/ })
  t.match(
    await runMain(['seal', 'off'], { home, env: { TAI_SEAL_PASSPHRASE: 'second passphrase' } }),
    { code: 0 },
  )
  t.match(await runMain(['seal', 'on'], { home, prompter: person('a', 'b') }), {
    code: 2,
    err: /differ/,
  })
})

t.test('settings are set, shown with where they come from, and taken back', async (t) => {
  const home = folder()
  t.match(await runMain(['config', 'set', 'max_steps', '9'], { home }), {
    code: 0,
    out: 'max_steps = 9\n',
  })
  t.match(
    await runMain(['config', 'set', 'max_steps', '8'], { home, env: { TAI_MAX_STEPS: '3' } }),
    { out: /TAI_MAX_STEPS hides it/ },
  )
  t.match(await runMain(['config', 'get', 'max_steps'], { home }), { out: '8\n' })
  t.match(await runMain(['config', 'unset', 'max_steps'], { home }), { code: 0 })
  t.match(await runMain(['config', 'get', 'max_steps'], { home }), { out: '50\n' })
  t.match(await runMain(['config', 'set', 'max_step', '9'], { home }), {
    code: 2,
    err: /did you mean max_steps/,
  })
  t.match(await runMain(['config', 'set', 'max_steps', 'many'], { home }), { code: 2 })
  t.match(await runMain(['config', 'path'], { home }), { out: /vault\.db/ })
})

t.test('profiles are made, changed, used and deleted', async (t) => {
  const home = folder()
  t.match(
    await runMain(
      ['profile', 'create', 'work', '-m', 'openai/x', '--permission-mode', 'read-only'],
      { home },
    ),
    { code: 0 },
  )
  t.match(await runMain(['profile', 'create', 'work'], { home }), { code: 1, err: /exists/ })
  t.match(await runMain(['profile', 'edit', 'work', '-s', 'Be kind.'], { home }), { code: 0 })
  t.match(json(await runMain(['profile', 'show', 'work', '--json'], { home })), {
    name: 'work',
    model: 'openai/x',
    mode: 'read-only',
    prompt: 'Be kind.',
  })
  t.match(await runMain(['profile', 'create', 'bad', '--tools', 'nope'], { home }), {
    code: 2,
    err: /no tool named nope/,
  })
  t.match(await runMain(['profile', 'use', 'work'], { home }), { code: 0 })
  t.match(await runMain(['profile', 'use', 'nobody'], { home }), { code: 1 })
  t.match(await runMain(['profile', 'delete', 'work'], { home }), { code: 0 })
})

t.test('models are shown and listed', async (t) => {
  const model = await startModel([], { models: ['m', 'text-embedding-x'] })
  t.teardown(() => model.close())
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'k' }
  t.match(json(await runMain(['model', 'show', '--json'], { env })), { model: 'openai/m' })
  t.match((await runMain(['model', 'list'], { env })).out, /openai\/m/)
  const none = await runMain(['model', 'show'], {})
  t.equal(none.code, 3)
})

t.test('grants are given, checked and taken back', async (t) => {
  const home = folder()
  t.match(await runMain(['approval', 'check', 'shell_exec', '{"command":"make test"}'], { home }), {
    out: /^ask: /,
  })
  t.match(await runMain(['approval', 'grant', 'shell_exec', '--command', 'make test'], { home }), {
    code: 0,
  })
  t.match(await runMain(['approval', 'check', 'shell_exec', '{"command":"make test"}'], { home }), {
    out: /^run: grant/,
  })
  t.match(
    await runMain(['approval', 'check', 'shell_exec', '{"command":"make install"}'], { home }),
    { out: /^ask: / },
  )
  t.match(await runMain(['approval', 'deny', 'read_file'], { home }), { code: 0 })
  t.match(await runMain(['approval', 'check', 'read_file', '{"path":"a"}'], { home }), {
    out: /^deny: deny_grant/,
  })
  const { grants } = json(await runMain(['approval', 'list', '--json'], { home }))
  t.equal(grants.length, 2)
  for (const { id } of grants)
    t.match(await runMain(['approval', 'revoke', id], { home }), { code: 0 })
  t.match(await runMain(['approval', 'grant', 'nope'], { home }), { code: 2 })
  t.match(await runMain(['approval', 'check', 'read_file', 'x'], { home }), {
    code: 2,
    err: /no JSON object/,
  })
  t.match((await runMain(['audit', 'list', '--json'], { home })).out, /grant-revoked/)
  t.match(await runMain(['audit', 'verify'], { home }), { code: 0, out: /unbroken/ })
  t.match((await runMain(['audit', 'export'], { home })).out, /^\{.*\}\n\{/)
})

t.test('tools are listed with what they may do', async (t) => {
  const { tools } = json(await runMain(['tools', 'list', '--json']))
  t.equal(tools.length, TOOLS.length)
  t.match(await runMain(['tools', 'show', 'grep']), {
    code: 0,
    out: /grep \(files, Low\)[^]*"pattern"/,
  })
  t.match(await runMain(['tools', 'show', 'grpe']), { code: 2, err: /did you mean grep/ })
})

t.test('version, help and completion', async (t) => {
  t.match(await runMain(['version']), { code: 0, out: /^tai \d+\.\d+\.\d+\n$/ })
  t.match(await runMain(['help', 'secret']), { out: /tai secret set NAME/ })
  t.match(await runMain(['help', 'nope']), { code: 2, err: /no command nope/ })
  t.match(await runMain(['completion', 'bash']), { out: /complete .* tai$/m })
  const env = { COMP_LINE: 'tai secret d' }
  t.equal((await runMain(['completion', 'line', '--', 'tai', '--d', 'x'], { env })).out, 'delete\n')
})
