import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'
import {
  ChildGroup,
  childEnv,
  hideEnvironment,
  MB,
  Processes,
  reapOrphans,
  Redactor,
  refuseMarks,
  runCommand,
  shellArgv,
  TaiError,
} from '../tai.ts'
import type { RunOptions, World } from '../tai.ts'

const env = { PATH: process.env['PATH'] ?? '' }
const never = new AbortController().signal
const cwd = os.tmpdir()
const run = (command: string, more: Partial<RunOptions> = {}) =>
  runCommand({ argv: shellArgv(command), cwd, env, timeout: 10_000, ...more })

function makeWorld(home: string, own: Record<string, string> = {}): World {
  return {
    env: { ...env, ...own },
    platform: process.platform,
    cwd,
    home,
    pid: process.pid,
    now: () => 1_000,
    randomBytes: (size) => Buffer.alloc(size, 7),
  }
}

/** Whether the process is there and no corpse. */
function lives(pid: number): boolean {
  return /^[^Z]/.test(
    spawnSync('ps', ['-o', 'state=', '-p', String(pid)])
      .stdout.toString()
      .trim(),
  )
}

t.test('a command gives back what it said and how it ended', async (t) => {
  const cases: [command: string, wanted: object][] = [
    ['printf a; printf b >&2', { code: 0, stdout: 'a', stderr: 'b', timedOut: false }],
    ['exit 3', { code: 3, signal: null, stdout: '' }],
    ['kill -TERM $$', { code: null, signal: 'SIGTERM' }],
    [String.raw`printf 'a\377b'`, { stdout: 'a\ufffdb' }],
    ['cat', { stdout: '' }],
  ]
  for (const [command, wanted] of cases) t.match(await run(command), wanted, command)
})

const noProc = process.platform === 'linux' ? false : 'only Linux has /proc'
t.test('a child finds no key in the environment of its parent', { skip: noProc }, (t) => {
  t.type(hideEnvironment, 'function')
  const module = JSON.stringify(path.resolve('tai.ts'))
  const script = `import { spawnSync } from 'node:child_process'
    import { hideEnvironment } from ${module}
    const kept = { ...process.env }
    const look = () => spawnSync('sh', ['-c', 'cat /proc/$PPID/environ'], { encoding: 'latin1' })
    const before = look().stdout
    const done = hideEnvironment()
    console.log(JSON.stringify({ kept, before, done, after: look().stdout, PLAIN: process.env.PLAIN }))`
  const secrets = { OPENAI_API_KEY: 'hush-éé', TAI_PASSPHRASE: 'hush-2', EMPTY_TOKEN: '' }
  const own = { ...env, FIRST: '1', ...secrets, PLAIN: 'ünverändert', LAST: 'z' }
  const argv = ['--input-type=module-typescript', '-e', script]
  const { stdout, stderr } = spawnSync(process.execPath, argv, { env: own, encoding: 'utf8' })
  t.match(stdout, /^\{/, stderr)
  const said = JSON.parse(stdout)
  t.match(said.before, 'hush')
  t.notMatch(said.after, 'hush')
  t.match(
    said.after,
    /FIRST=1\0OPENAI_API_KEY=\0+TAI_PASSPHRASE=\0+EMPTY_TOKEN=\0PLAIN=.*LAST=z\0/s,
  )
  t.match(said, { done: true, PLAIN: 'ünverändert', kept: secrets })
  t.end()
})

t.test('input is given whole, and a program need not read it', async (t) => {
  t.equal((await run('cat', { stdin: 'grüße' })).stdout, 'grüße')
  t.equal((await run('exit 0', { stdin: 'x'.repeat(MB) })).code, 0)
})

t.test(
  'a long output keeps head and tail, counts the middle and splits no character',
  async (t) => {
    const command = `head -c 3000000 /dev/zero | tr '\\0' x; printf 'ä%.0s' {1..40}`
    for (const maxOutput of [99, 100, 101, 102]) {
      const { stdout } = await run(command, { maxOutput })
      const [, head = '', left, tail = ''] =
        /^(x+)\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n(ä+)$/.exec(stdout) ?? []
      t.equal(head.length + Number(left) + 2 * tail.length, 3_000_080, `${maxOutput}`)
      t.ok(Buffer.byteLength(head + tail) <= 102)
    }
    const split = await run(`printf 'ä%.0s' {1..400}`, { maxOutput: 10 })
    t.match(split.stdout, /^ää\n\[\.\.\. 792 bytes left out \.\.\.\]\nää$/)
  },
)

t.test('the time limit ends the whole group, stubborn ones too', async (t) => {
  const result = await run('trap "" TERM; sleep 60 & echo $!; wait; sleep 60', { timeout: 500 })
  t.match(result, { timedOut: true, code: null, signal: 'SIGKILL' })
  t.equal(lives(Number(result.stdout)), false)
})

t.test('an abort ends the group and rejects with its reason', async (t) => {
  const abort = new AbortController()
  const file = path.join(t.testdir(), 'pid')
  const running = run(`sleep 60 & echo $! > ${file}; wait`, { signal: abort.signal })
  const watcher = fs.watch(path.dirname(file))
  while (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') === '') await once(watcher, 'change')
  watcher.close()
  abort.abort(new Error('enough'))
  await t.rejects(running, { message: 'enough' })
  t.equal(lives(Number(fs.readFileSync(file, 'utf8'))), false)
  await t.rejects(run('echo never', { signal: abort.signal }), { message: 'enough' })
})

t.test('a grandchild that keeps the pipes open holds nobody up, and ends', async (t) => {
  const began = performance.now()
  const { stdout, code } = await run('sleep 60 & echo $!')
  t.ok(performance.now() - began < 5_000)
  t.equal(code, 0)
  t.equal(lives(Number(stdout)), false)
  const quiet = await run('sleep 60 >/dev/null 2>&1 & echo $!')
  t.equal(lives(Number(quiet.stdout)), false)
  if (spawnSync('setsid', ['true']).status !== 0) return
  const file = path.join(t.testdir(), 'pid')
  const command = `setsid sh -c 'echo $$ > ${file}; exec sleep 60' & until [ -s ${file} ]; do sleep 0.01; done`
  t.equal((await run(command)).code, 0, 'even one that left the group')
  process.kill(Number(fs.readFileSync(file, 'utf8')), 'SIGKILL')
})

t.test('what cannot start says why', async (t) => {
  const dir = t.testdir({ plain: 'no program' })
  const start = (argv: string[], folder = dir) =>
    runCommand({ argv, cwd: folder, env, timeout: 1_000 })
  await t.rejects(start(['no-such-program']), {
    constructor: TaiError,
    message: /no-such-program: no such program/,
  })
  await t.rejects(start([path.join(dir, 'plain')]), { message: /EACCES/ })
  await t.rejects(start(['true'], path.join(dir, 'gone')), { message: /no folder .*gone/ })
  await t.rejects(start(['true'], path.join(dir, 'plain')), { message: /ENOTDIR/ })
  await t.rejects(start(['true', 'x'.repeat(4 * MB)]), { message: /E2BIG/ })
  await t.rejects(start(['true', 'a\0b']), { name: 'TaiError' })
})

t.test('a child sees neither keys nor settings of tai nor known secrets', async (t) => {
  const redactor = new Redactor()
  redactor.add('db', 'hunter2-hunter2')
  const world = makeWorld('/nowhere', {
    TAI_HOME: '/x',
    OPENAI_API_KEY: 'k',
    MY_PASSWORD: 'p',
    PLAIN: 'plain',
    URL: 'db://u:hunter2-hunter2@h',
    ENCODED: Buffer.from('xx hunter2-hunter2').toString('base64'),
    SSH_AUTH_SOCK: '/s',
    GIT_CONFIG_KEY_0: 'safe.directory',
  })
  t.strictSame(childEnv(world, redactor, { OWN_TOKEN: 'given', PLAIN: 'other' }), {
    ...env,
    PLAIN: 'other',
    SSH_AUTH_SOCK: '/s',
    GIT_CONFIG_KEY_0: 'safe.directory',
    OWN_TOKEN: 'given',
  })
  t.throws(() => childEnv(world, redactor, { A: 'x [redacted:db] y' }), TaiError)
  t.throws(() => refuseMarks('the command', 'echo [redacted:db] > .env'), {
    message: /the command/,
  })
})

t.test('a background process is read by offset, without polling', async (t) => {
  const processes = new Processes(makeWorld(t.testdir()), new Redactor())
  t.teardown(() => processes.stopAll())
  const command = 'echo one; echo two >&2; echo three; read line; echo "got $line"; exit 4'
  const { id } = await processes.start({ command, cwd, env, name: 'reader' })
  let text = ''
  let next = 0
  const more = async () => {
    const read = await processes.find(id).read(next, 5_000, never)
    text += read.text
    next = read.next
    return processes.find(id)
  }
  while (!text.includes('three')) await more()
  t.equal(text, 'one\ntwo\nthree\n', 'both streams in the order of arrival')
  processes.find(id).write('hé\n', false)
  while ((await more()).group.exit === undefined);
  t.equal(text, 'one\ntwo\nthree\ngot hé\n')
  t.match(processes.list(), [
    { id: 'p1', label: `reader: ${command}`, group: { exit: { code: 4 } } },
  ])
  t.match(await processes.find(id).read(next, 60_000, never), { text: '', next }, 'at once')
  t.match(await processes.find(id).read(999, 0, never), { text: '', next, dropped: 0 })
  t.match(await processes.find(id).read(4, 0, never), { text: 'two\nthree\ngot hé\n' })
  t.throws(() => processes.find(id).write('x', false), { message: /has ended/ })
  await processes.find(id).group.stop('SIGTERM')
  t.match(processes.find(id).group, { exit: { code: 4 } })
  t.throws(() => processes.find('p9'), {
    message: /no background process p9/,
  })
})

t.test(
  'a secret split over two pieces is taken out, and offsets count what is shown',
  async (t) => {
    const redactor = new Redactor()
    redactor.add('pin', 'secret-value')
    const processes = new Processes(makeWorld(t.testdir()), redactor)
    const command = 'printf "a secr"; read x; printf "et-value b"; read x'
    const { id } = await processes.start({ command, cwd, env })
    let read = await processes.find(id).read(0, 5_000, never)
    t.equal(read.text, 'a ', 'what may become a secret is held back')
    processes.find(id).write('\n', false)
    read = await processes.find(id).read(read.next, 5_000, never)
    t.equal(read.text, '[redacted:pin] b')
    t.equal(read.next, 18)
    await processes.stopAll()
  },
)

t.test('old output is dropped and counted, and characters stay whole', async (t) => {
  const processes = new Processes(makeWorld(t.testdir()), new Redactor())
  const command = `yes ä | head -c 3000001`
  const { id } = await processes.start({ command, cwd, env })
  let next = 0
  while (processes.list()[0]?.group.exit === undefined)
    next = (await processes.find(id).read(next, 5_000, never)).next
  const { text, dropped } = await processes.find(id).read(0, 0, never)
  const seen = processes.find(id)
  t.equal(dropped + Buffer.byteLength(text), seen.bytes())
  t.ok(Buffer.byteLength(text) <= MB && Buffer.byteLength(text) > MB - 4)
  t.notOk(text.slice(0, -1).includes('\ufffd'))
})

t.test(
  'stopping walks the ladder; waiting ends with an abort; the number is limited',
  async (t) => {
    const home = t.testdir()
    const processes = new Processes(makeWorld(home), new Redactor())
    const { id } = await processes.start({
      command: 'trap "exit 7" INT; echo up; while :; do sleep 0.05; done',
      cwd,
      env,
    })
    await processes.find(id).read(0, 5_000, never)
    const abort = new AbortController()
    const waiting = processes.find(id).read(99, 60_000, abort.signal)
    abort.abort(new Error('enough'))
    await t.rejects(waiting, { message: 'enough' })
    await processes.find(id).group.stop('SIGINT')
    t.match(processes.find(id).group, { exit: { code: 7 } })
    for (let n = 0; n < 16; n++) await processes.start({ command: 'read x', cwd, env })
    await t.rejects(processes.start({ command: 'true', cwd, env }), {
      message: /16 background.*process_stop/,
    })
    processes.find('p2').write('', true)
    t.throws(() => processes.find('p2').write('x', false), {
      message: /stdin of p2 is closed|has ended/,
    })
    t.ok(fs.readdirSync(path.join(home, 'run')).length >= 15)
    await processes.stopAll()
    t.equal(
      processes.list().every(({ group }) => group.exit !== undefined),
      true,
    )
    t.strictSame(fs.readdirSync(path.join(home, 'run')), [], 'records end with their groups')
  },
)

t.test('every group can be ended at once', async (t) => {
  const home = t.testdir()
  const options = { argv: ['sleep', '60'], cwd, env, world: makeWorld(home) }
  const group = await ChildGroup.start(options)
  const [record = ''] = fs.readdirSync(path.join(home, 'run'))
  t.equal(fs.statSync(path.join(home, 'run', record)).mode & 0o777, 0o600)
  t.equal(fs.statSync(path.join(home, 'run')).mode & 0o777, 0o700)
  ChildGroup.endAll()
  t.strictSame(fs.readdirSync(path.join(home, 'run')), [])
  t.strictSame(await group.ended, { code: null, signal: 'SIGKILL' })
  t.strictSame(group.exit, { code: null, signal: 'SIGKILL' })
  t.equal(group.kill('SIGTERM'), false)
  await group.stop()
})

/** A tai that starts a command, says the pids, and is killed with no chance to act. */
async function killedTai(home: string, command: string): Promise<number[]> {
  const program = `
    import { runCommand, shellArgv } from ${JSON.stringify(path.resolve('tai.ts'))}
    const world = { home: ${JSON.stringify(home)}, pid: process.pid, randomBytes: () => Buffer.from('ab') }
    const argv = shellArgv(${JSON.stringify(`until ls ${home}/run/*.$$.*; do sleep 0.01; done; ${command}`)})
    await runCommand({ argv, cwd: '/', env: process.env, timeout: 60000, world })`
  const tai = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'ignore' })
  const file = path.join(home, 'pids')
  const watcher = fs.watch(home)
  while (!fs.existsSync(file) || !fs.readFileSync(file, 'utf8').includes('\n'))
    await once(watcher, 'change')
  watcher.close()
  tai.kill('SIGKILL')
  await once(tai, 'exit')
  return fs.readFileSync(file, 'utf8').trim().split(' ').map(Number)
}

t.test(
  'what a killed tai left behind ends with the next one; its own and strangers do not',
  async (t) => {
    const home = fs.realpathSync(t.testdir())
    const runs = path.join(home, 'run')
    reapOrphans(makeWorld(home)) // nothing there
    const left = await killedTai(home, `sleep 61 & echo $! $$ > ${home}/pids; wait`)
    const mine = await ChildGroup.start({ argv: ['sleep', '63'], cwd, env, world: makeWorld(home) })
    const stranger = spawn('sleep', ['64'], { detached: true, stdio: 'ignore' })
    const records = {
      reused: `999999999.x.${stranger.pid}.another-start.group`,
      unknown: `999999999.x.${stranger.pid}.undefined.group`,
      everybody: '999999999.x.1.undefined.group',
      broken: '999999999.group',
      socket: 'page.sock',
    }
    for (const name of Object.values(records)) fs.writeFileSync(path.join(runs, name), '')

    reapOrphans(makeWorld(home))
    for (const pid of left) {
      for (let looks = 0; lives(pid) && looks < 100; ) looks += 1 // a signal takes its time
      t.equal(lives(pid), false, `${pid} ended`)
    }
    t.ok(lives(mine.pid) && lives(stranger.pid ?? 0), 'the living are left alone')
    const kept = fs.readdirSync(runs).toSorted()
    t.equal(kept.length, 2)
    t.match(kept, [
      new RegExp(`^${process.pid}\\.[^.]+\\.${mine.pid}\\.[^.]+\\.group$`),
      'page.sock',
    ])
    stranger.kill('SIGKILL')
    await mine.stop()
  },
)
