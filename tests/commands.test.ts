import t from 'tap'
import { callDigest, COMMANDS, GRANT_SESSION_TTL, Store, TOOLS } from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { outsideOf, runMain } from './fakes/outside.ts'
import { person } from './fakes/world.ts'
import { folder, modelEnv } from './fakes/tai.ts'

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
      out: 'stored  API_KEY\n',
    })
    const list = await runMain(['secret', 'list', '--json'], { home })
    t.match(json(list), { secrets: [{ name: 'API_KEY' }] })
    t.notMatch(list.out, 's3cret-value')
    t.match(await runMain(['secret', 'delete', 'API_KEY'], { home }), { code: 0 })
    t.match(await runMain(['secret', 'delete', 'API_KEY'], { home }), {
      code: 1,
      err: /no secret API_KEY\n.*secret list/,
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
  const two = person('second passphrase', 'second passphrase', 'first passphrase')
  t.match(await runMain(['seal', 'rotate'], { home, prompter: two }), { code: 0 })
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
    out: 'max_steps = 9 (tai config set)\n',
  })
  t.match(
    await runMain(['config', 'set', 'max_steps', '8'], { home, env: { TAI_MAX_STEPS: '3' } }),
    { out: 'max_steps = 3 (TAI_MAX_STEPS)\n' },
  )
  t.match(await runMain(['config', 'get', 'max_steps'], { home }), { out: '8\n' })
  t.match(await runMain(['config', 'unset', 'max_steps'], { home }), { code: 0 })
  t.match(await runMain(['config', 'get', 'max_steps'], { home }), { out: '50\n' })
  t.match(await runMain(['config', 'set', 'max_step', '9'], { home }), {
    code: 2,
    err: /no setting max_step\n.*config list/,
  })
  t.match(await runMain(['config', 'set', 'max_steps', 'many'], { home }), { code: 2 })
  t.match(await runMain(['config', 'path'], { home }), { out: /vault\.db/ })
  t.match(await runMain(['config', 'unset', 'of_another_tai'], { home }), {
    code: 0,
    out: 'of_another_tai is not set\n',
  })
})

t.test('a list of tools has only tools that there are, and who set another is named', async (t) => {
  const home = folder()
  t.match(await runMain(['config', 'set', 'tools', 'grep, zzz'], { home }), {
    code: 2,
    err: /no tool named zzz\n/,
  })
  for (const list of ['grep,read_file', ''])
    t.match(await runMain(['config', 'set', 'tools', list], { home }), { code: 0 }, list)
  const model = await startModel(() => ({ text: 'done' }))
  t.teardown(() => model.close())
  const ask = (...flags: string[]) => runMain([...flags, 'hi'], { home, env: modelEnv(model) })
  t.match(await ask(), { code: 0, out: 'done\n' })
  const store = await Store.open(outsideOf({ home }).world)
  await store.setSetting('tools', 'grep,zzz') // by another tai, which has it
  store.close()
  t.match(await ask(), {
    code: 2,
    err: /^tai: there is no tool named zzz \(tai config set: tools\)\n {2}`tai config unset tools` /,
  })
  t.match(await ask('--tools', 'yyy'), {
    code: 2,
    err: /^tai: there is no tool named yyy \(flag --tools: tools\)\n {2}`tai tools list` /,
  })
  t.match(await runMain(['config', 'unset', 'tools'], { home }), { code: 0 })
  t.match(await ask(), { code: 0 })
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
  for (const words of ['profile use nobody', 'config set profile nobody'])
    t.match(await runMain(words.split(' '), { home }), {
      code: 1,
      err: /there is no profile nobody\n.*tai profile list/,
    })
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

t.test('a grant says for which call, session and time it is', async (t) => {
  const home = folder()
  const approval = (...words: string[]) => runMain(['approval', ...words], { home })
  const args = '{"command":"make"}'
  const digest = callDigest('shell_exec', { command: 'make' })
  const once = json(await approval('grant', 'shell_exec', args, '--once', '--json'))
  t.match(once, { scope: 'once', digest, expires: undefined })
  t.match(await approval('check', 'shell_exec', args), {
    out: `run: grant_once (mode prompt)\nGrant ${once.id} (once) fits.\n`,
  })
  t.match(await approval('check', 'shell_exec', args), { out: /^run: / }, 'a check uses nothing up')
  t.match(json(await approval('grant', 'shell_exec', digest, '--json')), {
    scope: 'always',
    digest,
  })
  const late = new Date(Date.now() + 60_000).toISOString()
  t.match(json(await approval('deny', 'read_file', '--expires', late, '--json')), {
    scope: 'deny',
    expires: Date.parse(late),
  })
  const bad: [string[], number, RegExp][] = [
    [['grant', 'shell_exec', '--once'], 2, /--once is for one call\n.*digest/],
    [['grant', 'shell_exec', ''], 2, /no JSON object/],
    [['grant', 'shell_exec', 'abc'], 2, /no JSON object/],
    [['grant', 'shell_exec', '--expires', 'soon'], 2, /--expires soon is no time/],
    [['grant', 'shell_exec', '--expires', '2020-01-01'], 2, /--expires 2020-01-01 is over/],
    [['grant', 'shell_exec', '--session', ''], 2, /--session is given, but empty/],
    [['grant', 'shell_exec', '--mode', 'free'], 2, /--mode: permission_mode is "free", not a mode/],
    [['grant', ''], 2, /usage: tai approval grant/],
    [['deny', 'shell_exec', args, '--once'], 2, /unknown flag --once/],
    [['check', 'shell_exec', args, '--mode', 'free'], 2, /not a mode/],
  ]
  for (const [words, code, err] of bad) t.match(await approval(...words), { code, err }, `${words}`)
  t.equal(json(await approval('list', '--json')).grants.length, 3)
  const model = await startModel([{ text: 'hi' }])
  t.teardown(() => model.close())
  const { session } = json(await runMain(['--json', 'hi'], { home, env: modelEnv(model) }))
  const short = json(await approval('grant', 'http_request', '--session', session, '--json'))
  t.match(short, { scope: 'session', session })
  t.ok(Math.abs(short.expires - Date.now() - GRANT_SESSION_TTL) < 60_000)
})

t.test('check tells what decides, and what each grant is not for', async (t) => {
  const home = folder()
  const approval = (...words: string[]) => runMain(['approval', ...words], { home })
  const check = async (...more: string[]) =>
    json(await approval('check', 'shell_exec', '{"command":"make"}', ...more, '--json'))
  const added = async (...words: string[]) => json(await approval(...words, '--json')).id
  const ids = {
    tests: await added('grant', 'shell_exec', '--command', 'npm test'),
    allow: await added('grant', 'shell_exec', '--mode', 'allow'),
    rm: await added('deny', 'shell_exec', '--command', 'rm'),
  }
  t.match(await check(), {
    decision: 'ask',
    reason: 'jit_no_approval',
    mode: 'prompt',
    digest: callDigest('shell_exec', { command: 'make' }),
    order: ['deny grants', 'mode'],
    grants: [
      { id: ids.rm, scope: 'deny', other: 'command' },
      { id: ids.allow, scope: 'always', other: 'mode' },
      { id: ids.tests, other: 'command' },
    ],
    grant: null,
  })
  const id = await added('grant', 'shell_exec', '--command', 'make')
  t.match(await check(), { decision: 'run', reason: 'grant', grant: { id, commands: ['make'] } })
  t.match(await check('--mode', 'read-only'), { decision: 'deny', reason: 'read_only_mode' })
  t.match(await check('--mode', 'allow'), { decision: 'run', reason: 'mode' })
  const lines = (await approval('check', 'shell_exec', '{"command":"make"}')).out
  t.match(lines, `Grant ${ids.rm} (deny) is for another command.\n`)
})

t.test('explain tells of a denied call, the newest or by digest', async (t) => {
  const home = folder()
  const approval = (...words: string[]) => runMain(['approval', ...words], { home })
  t.match(await approval('explain'), { code: 1, err: /no denied call/ })
  const calls = [{ command: 'touch one' }, { command: 'touch two', cwd: '\u001b[2J' }]
  const model = await startModel([
    { calls: calls.map((args) => ({ name: 'shell_exec', args })) },
    { text: 'no' },
  ])
  t.teardown(() => model.close())
  await runMain(['go'], { home, env: modelEnv(model) })
  const [one, two] = calls.map((args) => callDigest('shell_exec', args as never))
  const newest = await approval('explain')
  t.match(newest.out, /\nrule +it needs an approval/)
  t.match(newest.out, `, tai approval grant shell_exec ${two} --once\n`)
  t.match(newest.out, /\nmode +prompt\n/)
  t.match(newest.out, /\nargs +\{.*"command":"touch two"/)
  t.notMatch(newest.out, '\u001b')
  const denied = json(await approval('explain', one!.slice(0, 12), '--json'))
  t.match(denied, {
    tool: 'shell_exec',
    digest: one,
    mode: 'prompt',
    reason: 'jit_no_approval',
    rule: 'it needs an approval, and nobody can be asked',
    args: '{"command":"touch one"}',
    allows: [
      '--auto, or tai approval grant shell_exec',
      `tai approval grant shell_exec ${one} --once`,
    ],
  })
  t.match(await approval('explain', 'f00'), {
    code: 1,
    err: /no denied call f00\n.*audit list/,
  })
  for (const way of denied.allows.slice(1)) {
    const [, , ...words] = way.split(' ')
    t.match(await approval(...words), { code: 0 }, way)
  }
  model.push({ calls: calls.map((args) => ({ name: 'shell_exec', args })) }, { text: 'so' })
  const again = await runMain(['--approve-call-id', 'call_1', 'go'], { home, env: modelEnv(model) })
  t.match(again.err, /--approve-call-id does nothing/)
  const replies = model.requests[3]?.body.messages.slice(-2)
  t.notMatch(replies[0].content, /was not run/)
  t.match(replies[1].content, /was not run/)
})

t.test('a digest approved at the start allows one call', async (t) => {
  const args = { command: 'touch made' }
  const digest = callDigest('shell_exec', args)
  const model = await startModel(() => ({ text: 'done' }))
  t.teardown(() => model.close())
  const once = await startModel([
    {
      calls: [
        { name: 'shell_exec', args },
        { name: 'shell_exec', args },
      ],
    },
    { text: 'done' },
  ])
  t.teardown(() => once.close())
  const flags = ['--approve-digest', 'f'.repeat(64), '--approve-digest', digest]
  await runMain([...flags, 'go'], { env: modelEnv(once) })
  const [first, second] = once.requests[1]!.body.messages.slice(-2)
  t.notMatch(first.content, /was not run/)
  t.match(second.content, /was not run/)
  t.match(await runMain(['--approve-digest', 'abc', 'go'], { env: modelEnv(model) }), {
    code: 2,
    err: /approve_digest is "abc", not a list of digests/,
  })
})

t.test('tools are listed with what they may do', async (t) => {
  const { tools } = json(await runMain(['tools', 'list', '--json']))
  t.equal(tools.length, TOOLS.length)
  t.match(await runMain(['tools', 'show', 'grep']), {
    code: 0,
    out: /"grep"[^]*\n +"pattern": \{/,
  })
  t.match(await runMain(['tools', 'show', 'grpe']), { code: 2, err: /no tool named grpe/ })
})

t.test('version, help and completion', async (t) => {
  t.match(await runMain(['version']), { code: 0, out: /^tai \d+\.\d+\.\d+\n$/ })
  t.match(await runMain(['help', 'secret']), { out: /tai secret set NAME/ })
  t.match(await runMain(['help', 'nope']), { code: 2, err: /no command nope/ })
  t.match(await runMain(['completion', 'bash']), { out: /complete .* tai$/m })
  const env = { COMP_LINE: 'tai secret d' }
  t.equal((await runMain(['completion', 'line', '--', 'tai', '--d', 'x'], { env })).out, 'delete\n')
})
