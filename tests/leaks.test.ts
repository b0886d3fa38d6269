// A planted secret, through the built binary: it lies in the vault, in the environment and in the
// provider's key, is printed by commands and said by the model in every spelling, and is then looked
// for in every byte of the home, in both outputs, in the exports and in all that the model was sent.
import t, { type Test } from 'tap'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { stripVTControlCharacters } from 'node:util'
import { binary } from './fakes/binary.ts'
import { startModel, type ModelTurn } from './fakes/model.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { ended, folder, start, tai, type Ran } from './fakes/tai.ts'

// Values that every spelling writes differently; the key must fit into an HTTP header.
const SECRETS = {
  vault: 'plant"ed/one+two&three\\four é7',
  env: 'plant%ed in the/environment+"9"',
  key: 'plant-ed/key+"of"&the=provider8',
} as const
const PASSPHRASE = 'correct horse battery planted'

const json = (value: string) => JSON.stringify(value).slice(1, -1)
const base64 = (value: string, before: number) => {
  const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)])
  const first = before === 0 ? 0 : before + 1 // a digit that also holds bits of its neighbour is left out
  return bytes.toString('base64').slice(first, Math.floor((bytes.length * 4) / 3))
}
const SPELLINGS: Record<string, (value: string) => string> = {
  plain: (value) => value,
  'JSON-escaped': json,
  'JSON-escaped twice': (value) => json(json(value)),
  'URL-encoded': (value) => encodeURIComponent(value),
  'a form field': (value) => encodeURIComponent(value).replaceAll('%20', '+'),
  hex: (value) => Buffer.from(value).toString('hex'),
  'hex in capitals': (value) => Buffer.from(value).toString('hex').toUpperCase(),
  base64: (value) => base64(value, 0),
  'base64 after one byte': (value) => base64(value, 1),
  'base64 after two bytes': (value) => base64(value, 2),
  base64url: (value) => base64(value, 0).replaceAll('+', '-').replaceAll('/', '_'),
}

/** Where which secret stands in which spelling: the test's whole question. */
function found(
  where: string,
  text: string | Buffer,
  secrets: Record<string, string> = SECRETS,
): string[] {
  const bytes = Buffer.from(text)
  return Object.entries(secrets).flatMap(([name, value]) =>
    Object.entries(SPELLINGS).flatMap(([spelling, write]) =>
      bytes.includes(write(value)) ? [`${where} holds the ${name} secret, ${spelling}`] : [],
    ),
  )
}

/** Every byte of every file of a home. */
function foundInHome(home: string): string[] {
  const files = readdirSync(home, { recursive: true, withFileTypes: true }).filter((it) =>
    it.isFile(),
  )
  return files.flatMap((it) => found(it.name, readFileSync(join(it.parentPath, it.name))))
}

const foundInRun = (what: string, run: Ran) => [
  ...found(`stdout of ${what}`, run.out),
  ...found(`stderr of ${what}`, run.err),
]

/** A home with the vault secret in it, a workspace with files that hold the secrets, and a model. */
async function plant(t: Test, seal: boolean) {
  const [home, work] = [folder(), folder()]
  const model = await startModel()
  t.teardown(() => model.close())
  const env = {
    OPENAI_BASE_URL: `${model.url}/v1`,
    OPENAI_API_KEY: SECRETS.key,
    X_API_KEY: SECRETS.env,
    TAI_MODEL: 'openai/m',
    ...(seal && { TAI_SEAL_PASSPHRASE: PASSPHRASE }),
  }
  const run = (args: string[], stdin?: string) => tai(args, { env, home, cwd: work, stdin })
  const set = await run(['secret', 'set', 'PLANTED'], SECRETS.vault)
  t.equal(set.code, 0, set.err)
  if (seal) t.equal((await run(['seal', 'on'])).code, 0)
  for (const [name, value] of Object.entries(SECRETS))
    writeFileSync(join(work, `${name}.txt`), value)
  const printer = `for (const name of ['vault', 'env', 'key']) {
    const value = require('fs').readFileSync(name + '.txt', 'utf8')
    for (const write of [${Object.values(SPELLINGS).map(String).join(', ')}]) console.log(write(value))
  }`
  writeFileSync(
    join(work, 'spell.cjs'),
    `const json = ${json}; const base64 = ${base64}\n${printer}`,
  )
  return { home, work, model, env, run, vault: join(home, '.tai') }
}

const ORDINARY = 'shell_exec,read_file,grep,write_file,vault_write,todo_write'

const call = (name: string, args: object): ModelTurn => ({ calls: [{ name, args }] })
const SPELL = `${process.execPath} spell.cjs`

type Planted = Awaited<ReturnType<typeof plant>>

/** Commands and files show the secrets in every spelling; the prompt holds them too. */
async function isPrinted(t: Test, { model, run }: Planted): Promise<void> {
  model.push(
    call('shell_exec', { command: `${SPELL}; ${SPELL} >&2; exit 3` }),
    call('shell_exec', { command: 'cat /proc/$PPID/environ | tr "\\0" "\\n"' }),
    call('shell_exec', { command: 'env' }),
    call('read_file', { path: 'vault.txt' }),
    call('grep', { pattern: 'plant' }),
    { text: 'The prompt was read.' },
  )
  const prompt = `the value is ${SECRETS.vault}, or ${SECRETS.key}; or ${SECRETS.env}`
  const turn = await run(['--auto', '--tools', ORDINARY, 'go'], prompt)
  t.match(turn, { code: 0, out: 'The prompt was read.\n' })
  const bodies = model.requests.map((it) => JSON.stringify(it.body))
  t.ok((bodies[1]?.match(/redacted:/g) ?? []).length > 30)
  t.strictSame(
    bodies.flatMap((body, n) => found(`request ${n}`, body)),
    [],
  )
  t.strictSame(foundInRun('the turn', turn), [])
  const environment = model.requests[3]?.body.messages.at(-1).content
  t.match(environment, /^PATH=/m)
  const key = /^(TAI_|X_API_KEY|OPENAI_API_KEY)/m
  t.notMatch(environment, key, "a child's environment has no key, not even its mark")
}

/** The pieces of one type of event, put together again. */
const joined = (lines: string, type: string): string =>
  lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .map((event) => (event.type === type ? event.text : ''))
    .join('')

/** The model says them, as words, as thoughts and as arguments; it was told elsewhere. */
async function isSaid(t: Test, { model, run }: Planted): Promise<void> {
  const said = Object.values(SECRETS).join(' / ')
  for (const flag of ['-v', '--json', '--stream-json']) {
    const calls = [
      { name: 'write_file', args: { path: `said${flag}.txt`, content: said } },
      { name: 'vault_write', args: { title: SECRETS.key, content: said } },
      { name: 'todo_write', args: { items: [{ text: said, status: 'pending' }] } },
      { name: 'shell_exec', args: { command: `cat '${SECRETS.vault}'; echo '${SECRETS.key}'` } },
      { name: 'read_file', args: { path: SECRETS.key } },
      { name: 'no_such_tool', args: { value: SECRETS.env } },
    ]
    model.push(
      { reasoning: `x${SECRETS.vault}x`, text: `x${SECRETS.env}x`, calls },
      { reasoning: `x${SECRETS.key}x`, text: `x${SECRETS.key}x` },
    )
    const turn = await run(['--auto', '--tools', ORDINARY, flag, 'say it'])
    t.equal(turn.code, 0, turn.err)
    t.match(turn.out, /redacted/)
    t.strictSame(foundInRun(`a turn ${flag}`, turn), [])
    if (flag === '--stream-json')
      for (const type of ['text', 'reasoning'])
        t.strictSame(found(`the joined ${type}`, joined(turn.out, type)), [])
  }
  for (const text of Object.values(SECRETS)) {
    model.push({ text: `x${text}x`, bytewise: true })
    t.match(await run(['--no-tools', 'say it']), { out: /^x\[redacted:[^\]]+\]x\n$/ })
  }
}

/** A provider that repeats the key in its refusal. */
async function isRepeated(t: Test, { model, run }: Planted): Promise<void> {
  const message = `Incorrect API key provided: ${SECRETS.key}`
  const headers = { 'content-type': 'application/json' }
  model.push({ status: 401, headers, body: JSON.stringify({ error: { message } }) })
  const refused = await run(['-v', '--json', 'hi'])
  t.equal(refused.code, 3)
  t.strictSame(foundInRun('a refusal', refused), [])
}

/** Everything that can be asked for afterwards. */
async function isAskedFor(t: Test, { run }: Planted): Promise<void> {
  const { sessions } = JSON.parse((await run(['session', 'list', '--json'])).out)
  const id = sessions.at(-1).id
  const views = `session list|session show ${id}|session export ${id}|session export ${id} --json|
    session search redacted|audit export|audit list|vault list --json|secret list --json|
    config list|config list --json|doctor -v|model show --json|approval list --json|seal status`
  for (const view of views.split(/\|\s*/))
    t.strictSame(foundInRun(view, await run(view.split(' '))), [], view)
  t.equal((await run(['audit', 'verify'])).code, 0)
}

/** A look into the home while a turn is open, so that vault.db-wal and vault.db-shm hold something. */
async function isOpen(t: Test, { home, work, env, model, vault }: Planted): Promise<void> {
  model.push(call('shell_exec', { command: SPELL }), { hang: true })
  const asked = model.requests.length
  const child = await start(['--auto', `my key: ${SECRETS.env}`], { env, home, cwd: work })
  child.stdin.end()
  const done = ended(child)
  await model.seen(asked + 2)
  t.ok(readdirSync(vault).includes('vault.db-wal'))
  t.strictSame(foundInHome(vault), [])
  child.kill('SIGTERM')
  t.match(await done, { code: 143 })
}

const WAYS = [isPrinted, isSaid, isRepeated, isAskedFor]

t.test('whatever is printed or said, no secret is left anywhere, with the seal on', async (t) => {
  const planted = await plant(t, true)
  for (const way of WAYS) await way(t, planted)
  t.strictSame(foundInHome(planted.vault), [])
  await isOpen(t, planted)
})

t.test('with the seal off, nowhere but in the table of the secrets', async (t) => {
  const planted = await plant(t, false)
  for (const way of WAYS) await way(t, planted)
  t.strictSame(foundInTables(planted.vault), [])
})

/** With the seal off the secrets table holds its values by design; every other table is looked through. */
function foundInTables(home: string): string[] {
  const db = new DatabaseSync(join(home, 'vault.db'), { readOnly: true })
  const names = db
    .prepare(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'secrets'`)
    .all()
  const problems = names.flatMap(({ name }) =>
    db
      .prepare(`SELECT * FROM "${name}"`)
      .all()
      .flatMap((row) =>
        Object.values(row).flatMap((cell) =>
          found(`table ${name}`, cell instanceof Uint8Array ? Buffer.from(cell) : String(cell)),
        ),
      ),
  )
  db.close()
  return problems
}

t.test('a secret that a command prints in two pieces is never put together', async (t) => {
  const { home, work, model, env } = await plant(t, false)
  const [first, second] = [SECRETS.vault.slice(0, 14), SECRETS.vault.slice(14)]
  const script = `process.stdout.write('begin ' + ${JSON.stringify(first)})
    process.stdin.once('data', () => process.stdout.write(${JSON.stringify(second)} + ' end\\n'))`
  writeFileSync(join(work, 'pieces.cjs'), script)
  const tools = 'process_start,process_output,process_input'
  model.push(
    { calls: [{ name: 'process_start', args: { command: `${process.execPath} pieces.cjs` } }] },
    { calls: [{ name: 'process_output', args: { id: 'p1', wait_s: 5 } }] },
    {
      calls: [
        { name: 'process_input', args: { id: 'p1', text: '\n' } },
        { name: 'process_output', args: { id: 'p1', since: 6, wait_s: 5 } },
      ],
    },
    { calls: [{ name: 'process_output', args: { id: 'p1' } }] },
    { text: 'done' },
  )
  const run = await tai(['--auto', '--tools', tools, 'go'], { env, home, cwd: work })
  t.match(run, { code: 0, out: 'done\n' })
  const sent = JSON.stringify(model.requests.at(-1)?.body)
  t.ok(sent.includes('begin '))
  t.notOk(sent.includes(json(first)), 'the first piece waits for the second')
  t.notOk(sent.includes(json(second)), 'and the second is not shown alone')
  t.ok(sent.includes('[redacted:PLANTED] end'))
})

t.test('prompts of every kind lose it before they are sent', async (t) => {
  const { work, model, run, vault } = await plant(t, true)
  const all = Object.values(SECRETS).join(' ; ')
  writeFileSync(join(work, 'notes.txt'), `remember ${all}\n`)
  const ways: [string, string[], string?][] = [
    ['words', [`use ${all}`]],
    ['a pipe', ['use it'], all],
    ['a file', ['-f', 'notes.txt', 'use it']],
    ['a system prompt', ['-s', `use ${all}`, 'go']],
    ['a session that goes on', ['-c', `again ${all}`]],
  ]
  for (const [name, args, stdin] of ways) {
    model.push({ text: 'used' })
    const turn = await run(['--no-tools', ...args], stdin)
    t.match(turn, { code: 0, out: 'used\n' }, name)
    const sent = JSON.stringify(model.requests.at(-1)?.body)
    t.ok(sent.includes('[redacted:PLANTED]'), name)
    t.strictSame(found(name, sent), [])
    t.strictSame(foundInRun(name, turn), [])
  }
  t.strictSame(foundInHome(vault), [])
})

t.test(
  'a terminal shows none of it, and the lines typed there are kept without it',
  { skip: ptyAvailable ? false : 'no pseudo-terminals here' },
  async (t) => {
    const { home, work, model, env, vault } = await plant(t, true)
    const said = (value: string) => `${value.slice(0, 9)}${value.slice(9)} and on and on\n\n`
    model.push(
      {
        reasoning: said(SECRETS.vault),
        text: said(SECRETS.env),
        calls: [{ name: 'read_file', args: { path: SECRETS.vault } }],
      },
      { reasoning: said(SECRETS.key), text: said(SECRETS.vault) },
    )
    const typed = `look at ${SECRETS.env}`
    const { output } = await runInPty(
      `"$TAI" --auto`,
      [
        { wait: /> /, type: `${typed}\r` },
        { wait: /on and on[\s\S]*on and on[\s\S]*on and on[\s\S]*0J> /, type: '\u0004' },
      ],
      {
        cwd: work,
        env: { ...env, HOME: home, TAI_HOME: vault, TAI: await binary(), COLUMNS: '400' },
        columns: 400,
      },
    )
    t.strictSame(found('the terminal', stripVTControlCharacters(output).replace(typed, '')), [])
    t.strictSame(foundInHome(vault), [])
  },
)

t.test('the passphrase of the seal is a secret too', async (t) => {
  const { model, run, vault } = await plant(t, true)
  model.push(
    {
      calls: [
        { name: 'shell_exec', args: { command: 'cat /proc/$PPID/environ | tr "\\0" "\\n"' } },
      ],
    },
    { text: `x${PASSPHRASE}x` },
  )
  const turn = await run(['--yolo', `why is ${PASSPHRASE} refused?`])
  t.equal(turn.code, 0, turn.err)
  const secrets = { passphrase: PASSPHRASE }
  t.strictSame(
    model.requests.flatMap((it, n) => found(`request ${n}`, JSON.stringify(it.body), secrets)),
    [],
  )
  t.strictSame(found('stdout', turn.out, secrets), [])
  for (const name of readdirSync(vault).filter((it) => it.startsWith('vault.db')))
    t.strictSame(found(name, readFileSync(join(vault, name)), secrets), [])
})

t.test('a locked vault says so and sends nothing', async (t) => {
  const { home, work, model, env } = await plant(t, true)
  const {
    TAI_SEAL_PASSPHRASE: _,
    OPENAI_API_KEY: __,
    ...bare
  } = { TAI_SEAL_PASSPHRASE: '', ...env }
  const key = await tai(['secret', 'set', 'OPENAI_API_KEY'], { env, home, stdin: SECRETS.key })
  t.equal(key.code, 0, key.err)
  const locked = await tai(['hi'], { env: bare, home, cwd: work })
  t.match(locked.err, /needs-unlock/)
  t.match(locked.err, /TAI_SEAL_PASSPHRASE/)
  t.equal(locked.code, 1)
  const wrong = await tai(['hi'], {
    env: { ...bare, TAI_SEAL_PASSPHRASE: 'wrong horse' },
    home,
    cwd: work,
  })
  t.equal(wrong.code, 1)
  t.equal(model.requests.length, 0)
  model.push({ text: 'fine' })
  t.match(
    await tai(['hi'], { env: { ...bare, TAI_SEAL_PASSPHRASE: PASSPHRASE }, home, cwd: work }),
    { code: 0, out: 'fine\n' },
  )
})
