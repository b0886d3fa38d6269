// What can be wrong with what tai is asked: its command line, its variables, its settings, its model, its
// prompt. Each time one line that says what, one that says what to do, the right exit code, nothing
// sent and no stack trace.
import t from 'tap'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { startFakeChat } from './data/fake-chat.mjs'
import { complains } from './fakes/complaint.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'

const fake = await startFakeChat({})
t.teardown(() => fake.close())
const env = modelEnv(fake)

t.test('a command line that cannot be meant is exit 2, and nothing is sent', async (t) => {
  const work = folder()
  writeFileSync(join(work, 'broken.json'), '{"type": "object",')
  writeFileSync(join(work, 'list.json'), '[1]')
  writeFileSync(join(work, 'data.bin'), Buffer.from([0, 1, 2, 255, 254, 0, 0]))
  writeFileSync(join(work, 'latin1.txt'), Buffer.from('caf\xe9\n', 'latin1'))
  mkdirSync(join(work, 'folder'))
  const before = fake.requests().length
  const cases: [string[], RegExp][] = [
    [['--frobnicate', 'hi'], /--frobnicate/],
    [['--modle', 'x', 'hi'], /--modle/],
    [['-Z', 'hi'], /-Z/],
    [['--\u001b]0;owned\u0007', 'hi'], /unknown flag/],
    [['--model'], /--model .*missing/],
    [['--max-steps', '0', 'hi'], /max.steps.*0/],
    [['--max-steps', 'abc', 'hi'], /max.steps.*abc/],
    [['--max-steps', '1.5', 'hi'], /max.steps.*1\.5/],
    [['--max-steps=-1', 'hi'], /max.steps.*-1/],
    [['--max-cost', 'much', 'hi'], /max.cost.*much/],
    [['--permission-mode', 'evil', 'hi'], /permission.mode.*evil/],
    [['--tools', 'no_such_tool', 'hi'], /no_such_tool/],
    [['--root', 'nowhere', 'hi'], /nowhere/],
    [['--root', 'list.json', 'hi'], /list\.json/],
    [['--root', 'nowhere', '--no-tools', 'hi'], /nowhere/],
    [['--schema', 'nowhere.json', 'hi'], /nowhere\.json/],
    [['--schema', 'broken.json', 'hi'], /broken\.json/],
    [['--schema', 'list.json', 'hi'], /list\.json/],
    [['--schema', 'folder', 'hi'], /folder/],
    [['--file', 'nowhere.txt', 'hi'], /nowhere\.txt/],
    [['--file', 'folder', 'hi'], /folder/],
    [['--file', 'data.bin', 'hi'], /data\.bin/],
    [['--file', 'latin1.txt', 'hi'], /latin1\.txt/],
    [['-P', 'nobody', 'hi'], /nobody/],
    [['-r', 'unknown', 'hi'], /unknown/],
    [['-r', '', 'hi'], /session/],
    [['-m', '', 'hi'], /model/],
    [['secret', 'frob'], /no verb frob/],
    [['config', 'set', 'no_such_key', '1'], /no_such_key/],
    [['config', 'set', 'max_steps', 'many'], /many/],
    [['config', 'get', 'no_such_key'], /no_such_key/],
    [['audit', 'list', '--limit', 'x'], /limit.*x/],
    [['approval', 'check', 'read_file', '{'], /JSON/],
    [['approval', 'check', 'no_such_tool'], /no_such_tool/],
    [['completion', 'tcsh'], /tcsh/],
    [['secret', 'set', 'NAME'], /no value/],
    [['seal', 'on'], /passphrase/],
    [['help', 'nothing'], /nothing/],
  ]
  for (const [args, words] of cases)
    complains(t, await tai(args, { env, cwd: work }), 2, words, args.join(' '))
  t.equal(fake.requests().length, before)
})

t.test('a name that does not exist is exit 1 and says where those that do are', async (t) => {
  const home = folder()
  for (const args of [
    ['session', 'show', 'nope'],
    ['session', 'export', 'nope'],
    ['session', 'delete', 'nope'],
    ['vault', 'show', 'nope'],
    ['vault', 'delete', 'nope'],
    ['secret', 'delete', 'nope'],
    ['profile', 'show', 'nope'],
    ['profile', 'use', 'nope'],
    ['profile', 'edit', 'nope'],
    ['approval', 'revoke', 'nope'],
    ['seal', 'off'],
  ])
    complains(t, await tai(args, { env, home }), 1, /nope|not sealed/, args.join(' '))
})

t.test('--json has its object however early a turn fails', async (t) => {
  const [home, work] = [folder(), folder()]
  writeFileSync(join(work, 'data.bin'), Buffer.from([0, 1, 2]))
  for (const flag of ['--json', '--stream-json'])
    for (const args of [
      ['--max-steps', '0', 'hi'],
      ['--file', 'data.bin', 'hi'],
      ['-P', 'nobody', 'hi'],
      ['-r', 'nope', 'hi'],
      ['--schema', 'nope.json', 'hi'],
      [],
    ]) {
      const run = await tai([flag, ...args], { env, home, cwd: work })
      t.equal(run.code, 2)
      const lines = run.out.split('\n')
      t.equal(run.out[0], '{', `${flag} ${args.join(' ')}`)
      t.match(
        JSON.parse(lines.at(-2) || '{}'),
        { answer: '', exit: 2, error: { message: String, code: 2 } },
        `${flag} ${args.join(' ')}`,
      )
    }
})

t.test('variables that cannot be meant are named', async (t) => {
  const cases: [Record<string, string>, number, RegExp][] = [
    [{ TAI_MAX_STEPS: '0' }, 2, /TAI_MAX_STEPS/],
    [{ TAI_STREAM_IDLE: 'soon' }, 2, /TAI_STREAM_IDLE/],
    [{ TAI_PERMISSION_MODE: 'evil' }, 2, /TAI_PERMISSION_MODE/],
    [{ TAI_STDIN_WAIT: 'x' }, 2, /TAI_STDIN_WAIT/],
    [{ OPENAI_BASE_URL: 'not a url' }, 2, /OPENAI_BASE_URL|not a url/],
    [{ OPENAI_BASE_URL: 'ftp://127.0.0.1/' }, 2, /OPENAI_BASE_URL|ftp/],
    [{ OPENAI_API_KEY: 'with\nline end' }, 3, /key|header/i],
    [
      {
        HTTPS_PROXY: 'not a proxy',
        HTTP_PROXY: 'not a proxy',
        OPENAI_BASE_URL: 'http://far.test/v1',
      },
      3,
      /proxy/i,
    ],
  ]
  for (const [more, code, words] of cases)
    complains(t, await tai(['hi'], { env: { ...env, ...more } }), code, words, JSON.stringify(more))
})

t.test('a broken config file: its name and line; what does not need it still works', async (t) => {
  const files: [string, RegExp][] = [
    ['model = "openai/m"\nmax_steps = [1,\n', /config\.toml.*(line |:)[23]/],
    ['model = "x', /config\.toml.*(line |:)1/],
    ['max_steps = "many"\n', /config\.toml.*max_steps/],
    ['permission_mode = "evil"\n', /config\.toml.*permission_mode.*evil/],
    ['permission_mode = { a = 1 }\n', /config\.toml.*permission_mode/],
    ['[providers.mine]\nbase_url = 7\n', /config\.toml.*mine.*base_url/],
    ['model = "\u0001"\n', /config\.toml/],
  ]
  for (const where of ['home', 'project'] as const)
    for (const [text, words] of files) {
      if (where === 'project' && /permission_mode = \{|providers/.test(text)) continue // not a project's to say
      const [home, work] = [folder(), folder()]
      const place = join(where === 'home' ? home : work, '.tai')
      mkdirSync(place, { mode: 0o700 })
      writeFileSync(join(place, 'config.toml'), text)
      const run = (...args: string[]) =>
        tai(args, { env: { ...env, TAI_MODEL: 'openai/m' }, home, cwd: work })
      const name = `${where}: ${text.slice(0, 30)}`
      complains(t, await run('hi'), 2, words, name)
      const paths = await run('config', 'path')
      t.match(paths, { code: 0, err: '', out: join('.tai', 'config.toml') }, name)
      const doctor = await run('doctor', '--json')
      t.equal(doctor.code, 1, name)
      const checks: { name: string; health: string; text: string }[] = JSON.parse(doctor.out).checks
      t.ok(
        checks.some((it) => it.health === 'bad' && words.test(it.text)),
        `${name}: doctor names it`,
      )
      t.match(
        checks.find((it) => it.name === 'audit'),
        { health: 'ok' },
        name,
      )
      for (const args of text === files[0]?.[0]
        ? [['version'], ['help'], ['secret', 'list'], ['audit', 'verify']]
        : [])
        t.equal((await run(...args)).code, 0, `${name}: ${args}`)
      t.equal(readFileSync(join(place, 'config.toml'), 'utf8'), text)
    }
})

t.test('config.toml that is no readable file is named', async (t) => {
  const home = folder()
  mkdirSync(join(home, '.tai', 'config.toml'), { recursive: true })
  complains(t, await tai(['hi'], { env, home }), 2, /config\.toml/, 'a folder')
  t.equal((await tai(['config', 'path'], { env, home })).code, 0)
})

t.test('no model, no key, no server, no answer: exit 3 with what to do', async (t) => {
  const silent = createServer(() => {})
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const closed = createServer()
  closed.listen(0, '127.0.0.1')
  await once(closed, 'listening')
  const port = (server: typeof closed) => (server.address() as AddressInfo).port
  const closedPort = port(closed)
  closed.close()
  const base = (n: number) => ({
    OPENAI_BASE_URL: `http://127.0.0.1:${n}/v1`,
    OPENAI_API_KEY: 'k',
    TAI_MODEL: 'openai/m',
  })
  const cases: [string, Record<string, string>, string[], RegExp][] = [
    ['no key', { TAI_MODEL: 'openai/gpt-5' }, [], /key.*OPENAI_API_KEY|OPENAI_API_KEY/],
    ['no key of the other dialect', {}, ['-m', 'anthropic/claude-x'], /ANTHROPIC_API_KEY/],
    ['a closed port', base(closedPort), [], /127\.0\.0\.1:\d+.*refused/],
    [
      'a port that never answers',
      { ...base(port(silent)), TAI_STREAM_IDLE: '1' },
      [],
      /no reply from .* in 1.0 s/,
    ],
    [
      'an unknown model',
      { ...env, OPENAI_BASE_URL: `${fake.url}/f/404model/v1` },
      ['-m', 'openai/no-such'],
      /no-such/,
    ],
    [
      'an unknown provider',
      { ...env, OPENAI_BASE_URL: `${fake.url}/f/404model/v1` },
      ['-m', 'nobody/no-such'],
      /no-such/,
    ],
    [
      'something that speaks no HTTP',
      { ...base(closedPort), OPENAI_BASE_URL: `${fake.url.replace('http:', 'https:')}/v1` },
      [],
      /TLS/,
    ],
  ]
  for (const [name, more, args, words] of cases) {
    const run = await tai([...args, '--no-tools', 'hi'], { env: more, timeout: 20_000 })
    complains(t, run, 3, words, name)
  }
  const none = await tai(['hi'], { env: {} })
  t.equal(none.code, 3)
  t.match(none.err, /^tai: no model is set up\n( {2}.+\n){3}$/, 'three ways to set one up')
  const verbose = await tai(['-v', 'hi'], { env: base(closedPort) })
  t.match(verbose.err, /because: /)
  t.notMatch(verbose.err, /\n\s+at /)
})

t.test('standard input that is no text is refused by name, before anything is sent', async (t) => {
  const before = fake.requests().length
  const cases: [string, Buffer, RegExp][] = [
    ['NUL bytes', Buffer.from('text\0with\0nul'), /binary|NUL/i],
    ['gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]), /gzip|binary/i],
    ['ELF', Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0]), /ELF|binary|program/i],
    ['UTF-16', Buffer.from('\ufeffhello there', 'utf16le'), /UTF-16/],
    ['Latin-1', Buffer.from('d\xe9j\xe0 vu', 'latin1'), /UTF-8/],
    ['half a character', Buffer.from('abc é').subarray(0, 5), /UTF-8/],
  ]
  for (const [name, stdin, words] of cases)
    for (const args of [['what is it?'], [], ['-']])
      complains(t, await tai(args, { env, stdin }), 2, words, `${name} ${args}`)
  t.equal(fake.requests().length, before)
  t.match(await tai(['hi'], { env, stdin: Buffer.from('\ufeffwith a mark') }), { code: 0 })
})

t.test('a schema that no answer can be held against is refused, and nothing is sent', async (t) => {
  const work = folder()
  const before = fake.requests().length
  for (const [name, text] of [
    ['lost.json', '{"$ref": "#/nowhere"}'],
    ['pattern.json', '{"type":"object","properties":{"a":{"pattern":"("}}}'],
    ['deep.json', `${'{"not":'.repeat(3_000)}{}${'}'.repeat(3_000)}`],
  ] as const) {
    writeFileSync(join(work, name), text)
    const run = await tai(['--schema', name, '[[say:{"a":"b"}]]'], { env, cwd: work })
    complains(t, run, 2, new RegExp(name.replace('.', '\\.')), name)
  }
  t.equal(fake.requests().length, before)
})
