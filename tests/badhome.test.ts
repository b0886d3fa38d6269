// What can be wrong with where tai lives: a vault that is newer, damaged or no vault, a home that
// cannot be written, a disk or an output that is full. Nothing is lost, and the right exit code comes
// with one line and one hint. Also complaint 21: eight at once on one home.
import t, { type Test } from 'tap'
import { spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { startFakeChat } from './data/fake-chat.mjs'
import { binary } from './fakes/binary.ts'
import { complains } from './fakes/complaint.ts'
import { startModel } from './fakes/model.ts'
import { ended, folder, modelEnv, type Ran, type RunOptions, tai } from './fakes/tai.ts'

const fake = await startFakeChat({})
t.teardown(() => fake.close())
const env = modelEnv(fake)
const isRoot = process.getuid?.() === 0

/** A shell line with the binary as "$0". */
async function shell(
  script: string,
  options: RunOptions & { uid?: number } = {},
): Promise<Omit<Ran, 'ms'>> {
  const home = options.home ?? folder()
  const child = spawn('sh', ['-c', script, await binary()], {
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      TAI_HOME: join(home, '.tai'),
      ...env,
      ...options.env,
    },
    cwd: options.cwd ?? home,
    ...(options.uid !== undefined && { uid: options.uid, gid: options.uid }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return ended(child as unknown as ChildProcessWithoutNullStreams, 15_000)
}

/** Every command that opens the vault, on one that cannot be used. */
async function refuses(t: Test, home: string, words: RegExp, name: string): Promise<void> {
  for (const args of [['hi'], ['secret', 'list'], ['audit', 'verify'], ['config', 'list']])
    complains(t, await tai(args, { env, home }), 1, words, `${name}: ${args.join(' ')}`)
  const json = await tai(['--json', 'hi'], { env, home })
  t.match(
    JSON.parse(json.out || '{}'),
    { exit: 1, error: { message: words, hint: String, code: 1 } },
    name,
  )
  for (const args of [['version'], ['help'], ['config', 'path']]) {
    const run = await tai(args, { env, home })
    t.match(run, { code: 0, err: '' }, `${name}: ${args} needs no vault`)
  }
  const doctor = await tai(['doctor', '--json'], { env, home })
  t.equal(doctor.code, 1)
  t.match(
    JSON.parse(doctor.out).checks.find((it: { name: string }) => it.name === 'vault'),
    { health: 'bad', text: words },
    name,
  )
}

/** A home with a secret, a session and an audit in it. */
async function lived(): Promise<{ home: string; vault: string }> {
  const home = folder()
  await tai(['secret', 'set', 'A'], { env, home, stdin: 'the-value-of-a' })
  await tai(['[[tool:time_now {}]]'], { env, home })
  return { home, vault: join(home, '.tai', 'vault.db') }
}

t.test('a vault that cannot be used is refused and left as it is', async (t) => {
  const { home: whole } = await lived()
  const spoil: Record<string, [RegExp, (vault: string) => void]> = {
    'a newer one': [
      /newer tai/,
      (vault) => {
        const db = new DatabaseSync(vault)
        db.exec('PRAGMA user_version = 9999')
        db.close()
      },
    ],
    garbage: [
      /damaged|not a vault/,
      (vault) => writeFileSync(vault, 'this is no database at all, '.repeat(1_000)),
    ],
    'half of it': [
      /damaged|not a vault/,
      (vault) => truncateSync(vault, Math.floor(statSync(vault).size / 2)),
    ],
    'garbage in the middle': [
      /damaged|not a vault/,
      (vault) => {
        const bytes = readFileSync(vault)
        writeFileSync(vault, bytes.fill('garbage ', 4_096, bytes.length))
      },
    ],
    'the database of another program': [
      /damaged|not a vault/,
      (vault) => {
        rmSync(vault)
        const db = new DatabaseSync(vault)
        db.exec('CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES (1)')
        db.close()
      },
    ],
  }
  for (const [name, [words, change]] of Object.entries(spoil)) {
    const home = folder()
    cpSync(join(whole, '.tai'), join(home, '.tai'), { recursive: true })
    const vault = join(home, '.tai', 'vault.db')
    change(vault)
    const before = readFileSync(vault)
    await refuses(t, home, words, name)
    t.ok(readFileSync(vault).equals(before), `${name}: not one byte was changed`)
  }
  const home = folder()
  mkdirSync(join(home, '.tai', 'vault.db'), { recursive: true })
  await refuses(t, home, /vault\.db.*(folder|cannot be opened|not a vault)/, 'a folder')
})

t.test('TAI_HOME that is no folder, and a folder that is gone', async (t) => {
  const home = folder()
  writeFileSync(join(home, '.tai'), 'a file')
  complains(t, await tai(['hi'], { env, home }), 1, /\.tai/, 'a file')
  const gone = await shell('mkdir gone && cd gone && rmdir ../gone && "$0" hi')
  complains(t, gone, 1, /folder|directory/, 'the current folder was deleted')
  const bare = await shell(
    'cd / && env -i PATH="$PATH" TAI_HOME="$TAI_HOME" OPENAI_BASE_URL="$OPENAI_BASE_URL" OPENAI_API_KEY=k "$0" -m openai/m --no-tools hi',
  )
  t.match(bare, { code: 0, out: /42/, err: '' }, 'without HOME')
})

t.test(
  'a home that cannot be written: a turn is answered and says that it is not saved',
  { skip: isRoot ? false : 'only root can become another user' },
  async (t) => {
    const { home } = await lived()
    const other = 65_534
    if (spawnSync(await binary(), ['version'], { uid: other, gid: other }).status !== 0)
      return t.comment('the other user cannot run the binary')
    chmodSync(home, 0o755)
    chmodSync(join(home, '.tai'), 0o755)
    for (const file of readdirSync(join(home, '.tai')))
      chmodSync(join(home, '.tai', file), file === 'run' ? 0o755 : 0o644)
    const before = readFileSync(join(home, '.tai', 'vault.db'))
    const says = /^tai: [^\n]*cannot be written[^\n]*not saved\n$/
    const turn = await shell('"$0" hi', { home, uid: other })
    t.match(turn, { code: 0, out: /42/, err: says })
    t.match(await shell('"$0" --json hi', { home, uid: other }), {
      code: 0,
      out: /^\{"answer":"The answer/,
      err: says,
    })
    const call = await shell('"$0" --auto "[[tool:time_now {}]]"', { home, uid: other })
    t.match(call, { code: 0, out: /42/ }, 'with a tool')
    complains(
      t,
      await shell('echo value | "$0" secret set B', { home, uid: other }),
      1,
      /cannot be written/,
      'secret set',
    )
    complains(
      t,
      await shell('"$0" config set model x/y', { home, uid: other }),
      1,
      /cannot be written/,
      'config set',
    )
    t.ok(readFileSync(join(home, '.tai', 'vault.db')).equals(before))
    const bare = folder()
    chmodSync(bare, 0o555)
    t.match(
      await shell('"$0" hi', { home: bare, uid: other }),
      { code: 0, out: /42/, err: /not saved/ },
      'no home can be made',
    )
    chmodSync(bare, 0o755)
    const hidden = await lived()
    chmodSync(hidden.home, 0o755)
    t.match(
      await shell('"$0" hi', { home: hidden.home, uid: other, cwd: '/' }),
      { code: 0, out: /42/, err: /not saved/ },
      "another's home",
    )
  },
)

t.test('a full disk: said in one line, and what was stored before is there', async (t) => {
  const disk = folder()
  const mounted =
    isRoot && spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status === 0
  if (!mounted) return t.comment('no small disk can be made here')
  try {
    await fillAndTry(t, disk)
  } finally {
    spawnSync('umount', ['-l', disk])
  }
})

async function fillAndTry(t: Test, disk: string): Promise<void> {
  const at = { env: { ...env, TAI_HOME: join(disk, '.tai') }, cwd: disk }
  const fill = () => spawnSync('sh', ['-c', 'cat /dev/zero > filler'], { cwd: disk })
  t.equal((await tai(['remember me'], at)).code, 0)
  writeFileSync(join(disk, 'kept.txt'), 'kept\n')
  fill()
  const full = await tai(['hi'], at)
  complains(t, full, 1, /disk is full/, 'a turn')
  complains(
    t,
    await tai(['secret', 'set', 'B'], { ...at, stdin: 'x'.repeat(100_000) }),
    1,
    /disk is full/,
    'secret set',
  )
  rmSync(join(disk, 'filler'))
  t.match(await tai(['audit', 'verify'], at), { code: 0, out: /unbroken/ })
  t.match(await tai(['-c', 'hi'], at), { code: 0, out: /42/, err: '' })
  t.match(JSON.stringify(fake.requests().at(-1)?.body), 'remember me')

  const model = await startModel([
    {
      calls: [
        {
          name: 'write_file',
          args: { path: 'kept.txt', content: `${'new '.repeat(1_000)}\n`.repeat(1_000) },
        },
      ],
    },
    { text: 'could not' },
  ])
  const write = await tai(['--auto', '--json', 'go'], {
    ...at,
    env: {
      OPENAI_BASE_URL: `${model.url}/v1`,
      TAI_MODEL: 'openai/m',
      TAI_HOME: join(folder(), 'h'),
      TAI_CONTEXT_WINDOW: '100000000',
    },
  })
  await model.close()
  t.match(JSON.parse(write.out), {
    answer: 'could not',
    tools: [{ name: 'write_file', ok: false }],
  })
  t.match(model.requests[1]?.body.messages.at(-1).content, /space|full/)
  t.equal(readFileSync(join(disk, 'kept.txt'), 'utf8'), 'kept\n')
  t.strictSame(readdirSync(disk).toSorted(), ['.tai', 'kept.txt'], 'no half of a file is left')

  rmSync(join(disk, '.tai'), { recursive: true })
  fill()
  complains(t, await tai(['hi'], at), 1, /disk is full/, 'a new vault')
}

t.test('standard streams that are closed or full', async (t) => {
  const { home } = await lived()
  for (const line of [
    '"$0" hi',
    '"$0" --json hi',
    '"$0" config list',
    '"$0" --help',
    '"$0" version',
    '"$0" --version',
    '"$0" audit export',
    '"$0" tools list --json',
  ])
    t.match(
      await shell(`${line} 2>&1 >/dev/full; echo "code $?"`, { home }),
      { out: /^tai: cannot write output: no space[^\n]*\n(  [^\n]*\n)?code 1\n$/ },
      `${line} >/dev/full`,
    )
  for (const closed of ['>&-', '2>&-', '<&-', '>&- 2>&-', '>&- 2>&- <&-']) {
    const run = await shell(`"$0" hi ${closed}; echo "code $?" >&2`, { home })
    t.match(
      run.err,
      closed.includes('>&- 2>&-')
        ? /code [01]\n$/
        : /^(tai: cannot write output[^\n]*\n(  [^\n]*\n)?code 1|code 0)\n$/,
      closed,
    )
    t.equal(
      (await tai(['audit', 'verify'], { env, home })).code,
      0,
      `${closed}: nothing was written into the vault by mistake`,
    )
  }
})

t.test('an audit that was changed is exit 1 and names the place', async (t) => {
  const { home, vault } = await lived()
  t.equal((await tai(['audit', 'verify'], { home })).code, 0)
  const db = new DatabaseSync(vault)
  for (const name of ['audit_never_changed', 'audit_never_removed']) db.exec(`DROP TRIGGER ${name}`)
  db.exec(`UPDATE audit SET data_json = '{"tool":"nothing"}' WHERE kind = 'tool-call'`)
  db.close()
  const run = await tai(['audit', 'verify'], { home })
  t.equal(run.code, 1)
  t.match(run.out, /1 problem\n.*changed/)
})

t.test('complaint 21: eight at once on one home, all answered, all saved', async (t) => {
  const home = folder()
  const ask = (n: number) => tai([`[[tool:time_now {}]] number ${n}`], { env, home })
  for (const round of [1, 2]) {
    const runs = await Promise.all(Array.from({ length: 8 }, (_, n) => ask(n)))
    for (const run of runs) t.match(run, { code: 0, out: /42/, err: '' })
    const { sessions } = JSON.parse((await tai(['session', 'list', '--json'], { home })).out)
    t.equal(sessions.length, 8 * round)
    t.ok(sessions.every((it: { messages: number }) => it.messages === 4))
    t.match(await tai(['audit', 'verify'], { home }), { code: 0, out: /in \d+ chains: unbroken/ })
  }
  const sets = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      tai(['secret', 'set', `S${n}`], { home, stdin: `value-number-${n}` }),
    ),
  )
  for (const run of sets) t.match(run, { code: 0, err: '' })
  t.equal(JSON.parse((await tai(['secret', 'list', '--json'], { home })).out).secrets.length, 8)
})
