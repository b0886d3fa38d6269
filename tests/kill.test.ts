// What is left when tai is killed, at the worst moments, and what the next tai makes of it: the vault,
// the session, the file that was being written, and the processes that were running.
import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startFakeChat, type FakeTurn } from './data/fake-chat.mjs'
import { binary } from './fakes/binary.ts'
import { groupIsGone, membersOf } from './fakes/groups.ts'
import { startModel } from './fakes/model.ts'
import { peer } from './fakes/peers.ts'
import { ended, folder, modelEnv, start, tai } from './fakes/tai.ts'

/** A model server that refuses what real providers refuse, a home and a workspace. */
async function scene(t: Test, ...turns: FakeTurn[]) {
  const fake = await startFakeChat({ fault: 'strict' })
  t.teardown(() => fake.close())
  fake.queue(...turns)
  const env = modelEnv(fake, 'm')
  const [home, work] = [folder(), folder()]
  const options = { env, home, cwd: work }
  const owns = (group: number) =>
    t.teardown(() => membersOf(group).length > 0 && process.kill(-group, 'SIGKILL'))
  const said = (): Said[] => fake.requests().at(-1)?.body.messages ?? []
  return { owns, said, env, home, work, options, next: (...args: string[]) => tai(args, options) }
}

/** The content of a file that a command of the model writes, once it is there and whole. */
async function appears(file: string): Promise<string> {
  const watcher = watch(join(file, '..'))
  try {
    for (;;) {
      const change = once(watcher, 'change')
      const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
      if (text.endsWith('\n')) return text.trim()
      await change
    }
  } finally {
    watcher.close()
  }
}

const SLEEP = { name: 'shell_exec', args: { command: 'echo $$ > group; sleep 30; echo slept' } }
const QUICK = { name: 'time_now', args: { tz: 'UTC' } }

/** A tai whose model has called the quick tool and the sleeping one; the sleeping one runs. */
async function asleep(it: Awaited<ReturnType<typeof scene>>, ...args: string[]) {
  const group = appears(join(it.work, 'group'))
  const child = await start(['--auto', ...args, 'do it'], it.options)
  child.stdin.end()
  const done = ended(child)
  const pid = Number(await group)
  it.owns(pid)
  const run = join(it.home, '.tai', 'run') // the command may be quicker than the record of its group
  while (!existsSync(run) || readdirSync(run).length === 0) await delay(5)
  return { child, done, group: pid }
}

type Said = { role: string; content: string; tool_calls?: { id: string }[]; tool_call_id?: string }

t.test(
  'f07 C: killed in the middle of a call, the session goes on and every call has its reply',
  async (t) => {
    for (const tools of [
      [QUICK, SLEEP],
      [SLEEP, QUICK],
    ]) {
      const it = await scene(t, { tools })
      const { child, done, group } = await asleep(it)
      child.kill('SIGKILL')
      t.match(await done, { code: null, signal: 'SIGKILL' })
      t.not(membersOf(group).length, 0, 'nobody could end the sleeper')
      const next = await it.next('-c', '--auto', 'go on')
      t.match(next, { code: 0, out: /42/, err: '' }, 'the provider accepts the history')
      const messages = it.said()
      const replies = messages
        .filter((message) => message.role === 'tool')
        .map((message) => message.content)
      t.equal(replies.length, 2)
      t.match(replies[tools.indexOf(SLEEP)], /interrupted/)
      if (tools[0] === QUICK)
        t.match(replies[0], /\d{4}-\d\d-\d\d/, 'the quick call has its real result')
      t.equal(messages.at(-1)?.content, 'go on')
      t.ok(await groupIsGone(group), 'the next tai ended the sleeper')
      t.strictSame(readdirSync(join(it.home, '.tai', 'run')), [], 'and took its record away')
      t.equal((await it.next('audit', 'verify')).code, 0)
    }
  },
)

/** server-everything behind a launcher that leaves a sleeper beside it; the group is in the file. */
async function withServer(it: Awaited<ReturnType<typeof scene>>): Promise<void> {
  const everything = await peer('@modelcontextprotocol/server-everything/dist/index.js')
  const launch = `sleep 300 & echo $$ > ${join(it.work, 'group')}; exec ${process.execPath} ${everything}`
  const stdin = JSON.stringify({ mcpServers: { it: { command: 'sh', args: ['-c', launch] } } })
  const added = await tai(['mcp', 'add', '-', '--yes', '-P', 'default'], { ...it.options, stdin })
  assert.equal(added.code, 0, added.err)
  assert.ok(await groupIsGone(Number(readFileSync(join(it.work, 'group'), 'utf8'))))
  rmSync(join(it.work, 'group'))
}

/** It takes 10 s. */
const LONG = { name: 'mcp_it_trigger_long_running_operation', args: {} }
const ECHO = { name: 'mcp_it_echo', args: { message: 'x' } }

/** A tai in a call of a server's tool; `group` is that of the server. */
async function inForeignCall(t: Test, ...args: string[]) {
  const it = await scene(t, { tools: [LONG] })
  await withServer(it)
  const ready = appears(join(it.work, 'group'))
  const child = await start(['--yolo', ...args, 'do it'], it.options)
  child.stdin.end()
  const group = Number(await ready)
  it.owns(group)
  while (membersOf(group).length < 2) await delay(10)
  await delay(300) // the handshake
  return { it, child, done: ended(child), group }
}

t.test('complaint 29: no process of a server is left, however tai ends', async (t) => {
  const quiet = await scene(t, { tools: [ECHO] })
  await withServer(quiet)
  const run = await quiet.next('--yolo', 'hi')
  t.match(run, { code: 0, out: /42/ })
  t.ok(await groupIsGone(Number(readFileSync(join(quiet.work, 'group'), 'utf8'))), 'by itself')
  for (const [signal, code] of [
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['SIGINT', 130],
  ] as const) {
    const { child, done, group } = await inForeignCall(t)
    child.kill(signal)
    t.match(await done, { code }, signal)
    t.ok(await groupIsGone(group), signal)
  }
  const { child, done, group } = await inForeignCall(t, '--stream-json')
  child.stdout.destroy()
  await done
  t.ok(await groupIsGone(group), 'a reader that leaves')
})

t.test('what a killed tai left of a server is ended by the next command', async (t) => {
  const { it, child, done, group } = await inForeignCall(t)
  child.kill('SIGKILL')
  await done
  t.ok(membersOf(group).length > 0, 'the sleeper at least')
  t.equal((await it.next('mcp', 'list')).code, 0)
  t.ok(await groupIsGone(group))
  t.strictSame(readdirSync(join(it.home, '.tai', 'run')), [])
})

t.test('a process that has the pid of a killed one, but is another, is left alone', async (t) => {
  const it = await scene(t, { tools: [SLEEP] })
  const { child, done, group } = await asleep(it)
  child.kill('SIGKILL')
  await done
  await delay(50) // Linux tells processes apart by start times in hundredths of a second
  const other = spawn('sleep', ['30'], { detached: true, stdio: 'ignore' })
  t.teardown(() => other.kill('SIGKILL'))
  const run = join(it.home, '.tai', 'run')
  const [name = ''] = readdirSync(run)
  t.match(name, new RegExp(`\\b${group}\\b`), 'the group is on record')
  writeFileSync(join(run, name.replaceAll(String(group), String(other.pid))), '')
  writeFileSync(join(run, 'half-of-a-rec'), '')
  t.equal((await it.next('-c', 'go on')).code, 0)
  t.ok(await groupIsGone(group))
  t.not(membersOf(other.pid ?? 0).length, 0)
})

t.test('the tools of a tai that lives are left alone by another one', async (t) => {
  const it = await scene(t, { tools: [SLEEP] })
  const { child, done, group } = await asleep(it)
  t.equal((await it.next('hello')).code, 0)
  t.not(membersOf(group).length, 0)
  child.kill('SIGTERM')
  await done
  t.ok(await groupIsGone(group))
})

t.test(
  'SIGTERM, SIGHUP and SIGINT in the middle of a call end its processes, in the background too',
  async (t) => {
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGHUP', 129],
      ['SIGINT', 130],
    ] as const) {
      const background = {
        name: 'process_start',
        args: { command: 'echo $$ > background; exec sleep 30' },
      }
      const it = await scene(t, { tools: [background] }, { tools: [QUICK, SLEEP] })
      const second = appears(join(it.work, 'background'))
      const { child, done, group } = await asleep(
        it,
        '--tools',
        'process_start,shell_exec,time_now',
      )
      child.kill(signal)
      t.match(await done, { code, signal: null, out: '' }, signal)
      t.ok(await groupIsGone(group), `${signal} ends the call`)
      t.ok(await groupIsGone(Number(await second)), `${signal} ends what runs in the background`)
      t.strictSame(readdirSync(join(it.home, '.tai', 'run')), [])
      t.match(await it.next('-c', 'go on'), { code: 0, out: /42/, err: '' })
      const replies = it.said().filter((message) => message.role === 'tool')
      t.match(
        replies.map((reply) => reply.content),
        [/./, /\d{4}-\d\d-\d\d/, /interrupted/],
      )
    }
  },
)

t.test(
  'what ran in the background ends with the turn, and with a reader that leaves',
  async (t) => {
    const background = {
      name: 'process_start',
      args: { command: 'echo $$ > group; exec sleep 30' },
    }
    const it = await scene(t, { tools: [background] }, { text: 'started' })
    t.match(await it.next('--auto', '--tools', 'process_start', 'go'), {
      code: 0,
      out: 'started\n',
    })
    t.ok(await groupIsGone(Number(readFileSync(join(it.work, 'group'), 'utf8'))))

    // f05 5: the answer never ends, but its reader has seen enough.
    const model = await startModel([
      { calls: [background] },
      { text: 'a line\n'.repeat(10_000), hold: true },
    ])
    t.teardown(() => model.close())
    const env = {
      ...it.env,
      OPENAI_BASE_URL: `${model.url}/v1`,
      HOME: it.home,
      PATH: process.env['PATH'] ?? '',
    }
    const script = '"$0" --auto --tools process_start go | head -n 1; echo "${PIPESTATUS[0]}"'
    const shell = spawn('bash', ['-c', script, await binary()], {
      env,
      cwd: it.work,
      stdio: 'pipe',
    })
    shell.stdin.end()
    t.match(await ended(shell), { out: /^a line\n(0|141)\n$/ })
    t.ok(await groupIsGone(Number(readFileSync(join(it.work, 'group'), 'utf8'))))
  },
)

t.test('a child that ignores every polite signal ends all the same, within seconds', async (t) => {
  const stubborn = {
    name: 'shell_exec',
    args: { command: `trap '' TERM INT HUP; echo $$ > group; while :; do sleep 1; done` },
  }
  const it = await scene(t, { tools: [stubborn] })
  const { child, done, group } = await asleep(it)
  const began = performance.now()
  child.kill('SIGTERM')
  t.match(await done, { code: 143 })
  t.ok(performance.now() - began < 6_000)
  t.ok(await groupIsGone(group))
})

t.test('killed in the middle of a write, the file is the old one or the new one', async (t) => {
  const [before, after] = [
    `${'old '.repeat(1_000)}\n`.repeat(300),
    `${'new '.repeat(1_000)}\n`.repeat(600),
  ]
  const seen = new Set<string>()
  for (const delay of [0, 2, 6, 12]) {
    const it = await scene(t, {
      tools: [{ name: 'write_file', args: { path: 'big.txt', content: after } }],
    })
    writeFileSync(join(it.work, 'big.txt'), before)
    const watcher = watch(it.work)
    const touched = once(watcher, 'change')
    const child = await start(['--auto', 'go'], it.options)
    child.stdin.end()
    const done = ended(child)
    await touched // the temporary file beside it
    const kill = setTimeout(() => child.kill('SIGKILL'), delay) // at different points of the write
    await done
    clearTimeout(kill)
    watcher.close()
    const text = readFileSync(join(it.work, 'big.txt'), 'utf8')
    t.ok(text === before || text === after, `whole after ${delay} ms`)
    seen.add(text === before ? 'old' : 'new')
    t.equal((await it.next('audit', 'verify')).code, 0)
    const next = await it.next('-c', '--no-tools', 'go on')
    t.equal(next.code, 0, next.err)
  }
  t.comment(`seen: ${[...seen].join(', ')}`)
})

t.test(
  'killed while it writes messages and audit rows, the vault opens, verifies and goes on',
  async (t) => {
    const calls = Array.from({ length: 8 }, () => QUICK)
    const model = await startModel((request) => {
      const last = request.body.messages.at(-1)
      return last.role === 'user' && last.content === 'go on' ? { text: 'went on' } : { calls }
    })
    t.teardown(() => model.close())
    const env = { OPENAI_BASE_URL: `${model.url}/v1`, TAI_MODEL: 'openai/m' }
    const [home, work] = [folder(), folder()]
    for (const steps of [2, 5, 9, 14]) {
      const many = model.requests.length
      const child = await start(['go'], { env, home, cwd: work })
      child.stdin.end()
      const done = ended(child)
      await model.seen(many + steps)
      child.kill('SIGKILL')
      t.match(await done, { signal: 'SIGKILL' })
      t.match(await tai(['audit', 'verify'], { env, home }), { code: 0, err: '', out: /unbroken/ })
      t.match(await tai(['-c', 'go on'], { env, home, cwd: work }), {
        code: 0,
        out: 'went on\n',
        err: '',
      })
      const messages: Said[] = model.requests.at(-1)?.body.messages
      const asked = messages.flatMap((message) => message.tool_calls?.map((call) => call.id) ?? [])
      const replied = messages.flatMap((message) => message.tool_call_id ?? [])
      t.strictSame(replied, asked, `${asked.length} calls have one reply each`)
    }
    const list = JSON.parse((await tai(['session', 'list', '--json'], { env, home })).out)
    t.equal(list.sessions.length, 4)
  },
)
