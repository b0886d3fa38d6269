// Family b of the cases is the contract, by its ids; complaints are named by what they complain of.
// What needs more than the transport (several servers, a whole run of tai) is said beside the id.
import t, { type Test } from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { mock } from 'node:test'
import {
  ChildGroup,
  type JsonObject,
  LinkError,
  MB,
  MCP_HTTP_MAX_BODY,
  MCP_WRITE_TIMEOUT,
  mcpArgv,
  type McpEntry,
  McpStdioTransport,
  reapOrphans,
  Redactor,
  type World,
} from '../tai.ts'
import { entryOf } from './fakes/entry.ts'
import { groupIsGone, membersOf } from './fakes/groups.ts'

type Case = { id: string; family: string; input: { script: string; server_js: string } }

const cases: Case[] = fs
  .readFileSync(new URL('data/cases.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line) => JSON.parse(line))
const inputOf = (id: string) => cases.find((each) => each.id === id)!.input

const fake = (name: string) => path.join(import.meta.dirname, 'fakes', name)
const PATH = [path.dirname(process.execPath), '/usr/bin', '/bin'].join(':')
const wait = 10_000

function worldIn(home: string, env: Record<string, string> = { PATH }): World {
  return {
    env,
    platform: process.platform,
    cwd: home,
    home,
    pid: process.pid,
    now: () => 1_000,
    randomBytes: (size) => Buffer.alloc(size, 7),
  }
}

const serverOf = (more: Partial<McpEntry> = {}) =>
  entryOf({ command: process.execPath, args: [fake('stdioserver.ts')], ...more })
const scriptOf = (id: string) => serverOf({ args: ['-e', inputOf(id).script] })

type Options = { world?: World; redactor?: Redactor }

/** A started server, its peer, and what it notified; it ends with the test. */
async function start(t: Test, entry = serverOf(), { world, redactor }: Options = {}) {
  const home = world?.home ?? fs.realpathSync(t.testdir())
  const known = redactor ?? new Redactor()
  const transport = await McpStdioTransport.start(entry, world ?? worldIn(home), known)
  t.teardown(() => transport.close())
  const heard: string[] = []
  const peer = transport
  transport.hear = (method) => void heard.push(method)
  const ask = (method: string, params: object = {}, ms = wait) =>
    peer.request(method, params as JsonObject, { wait: ms })
  const call = async (name = 'echo') => {
    const { content } = await ask('tools/call', { name, arguments: {} })
    return (content as { text: string }[])[0]?.text
  }
  return { home, transport, peer, heard, ask, call }
}

/** The group that is recorded as running in a home. */
function groupIn(home: string): number {
  const [record = ''] = fs.readdirSync(path.join(home, 'run'))
  return Number(record.split('.')[2])
}

const failure = (work: Promise<unknown>): Promise<LinkError> =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: unknown) => (error instanceof LinkError ? error : Promise.reject(error as Error)),
  )

const startFailure = (entry: McpEntry, world: World, redactor = new Redactor()) =>
  failure(McpStdioTransport.start(entry, world, redactor))

t.test(
  'b01, and the complaint of log lines on stdout: they are no messages, and no harm',
  async (t) => {
    const { transport, ask, call } = await start(t, scriptOf('b01'))
    t.match(await ask('initialize'), { protocolVersion: '2025-11-25' })
    t.match(await ask('tools/list'), { tools: [{ name: 'echo' }] })
    t.equal(await call(), 'ok garbageIn=0', 'nothing was answered to them')
    await ask('tools/list')
    const hint = transport.hint() ?? ''
    t.match(hint, /^it said: My MCP Server/)
    for (const line of [
      ' | 42 | [] | {"level":"info","msg":"db ok"} | ',
      'Shops response: [ | done',
    ])
      t.match(hint, line)
    t.match(hint, String.raw`\e[32m[INFO]\e[0m listening`, 'escape codes are only shown')
  },
)

t.test('b03: line ends, a byte order mark, and a last reply without an end', async (t) => {
  const { heard, transport, ask, call } = await start(t, scriptOf('b03'))
  t.match(await ask('initialize'), { serverInfo: { name: 'stub' } })
  t.match(await ask('tools/list'), { tools: [{ name: 'echo' }] })
  t.strictSame(heard, ['notifications/message'])
  t.equal(await call(), 'a\u2028b\u2029c\u0085d\r\ne')
  t.equal(transport.hint(), undefined, 'no line was odd')
  t.match(await failure(ask('tools/list')), { kind: 'lost', message: /exit code 0$/ })
})

t.test('b05: a server that floods stderr is drained, and its end is kept', async (t) => {
  const { transport, ask, call } = await start(t, scriptOf('b05'))
  await ask('initialize')
  await ask('tools/list')
  for (let calls = 0; calls < 20; calls++) t.equal(await call(), 'alive')
  t.match(transport.hint(), /^it said: e{2048}$/)
})

// That one server does not hold up the next is for those who start several.
t.test('b07: a server that never answers is named with what it said, and is gone', async (t) => {
  const { home, transport, ask } = await start(t, scriptOf('b07'))
  const group = groupIn(home)
  let error = await failure(ask('initialize', {}, 300))
  while (error.hint === undefined) error = await failure(ask('initialize', {}, 300))
  t.match(error, { kind: 'timeout', message: 'no answer to initialize in 300 ms' })
  t.match(error.hint, 'it said: waiting for something')
  await transport.close()
  t.strictSame(membersOf(group), [])
})

t.test('b09: replies that bend the rules end their call in one way or the other', async (t) => {
  const { transport, ask, call } = await start(t, scriptOf('b09'))
  await ask('initialize')
  const { tools } = await ask('tools/list')
  t.equal((tools as []).length, 7)
  t.equal(await call('null_error'), 'fine')
  await t.rejects(call('both'), { message: 'boom', code: -1 })
  await t.rejects(call('neither'), { kind: 'protocol', message: 'a reply without a result' })
  t.equal(await call('string_id'), 'fine')
  t.equal(await call('no_jsonrpc'), 'fine')
  await t.rejects(call('bad_error'), { message: 'just text' })
  const error = await failure(ask('tools/call', { name: 'null_id' }, 300))
  t.match(error, { kind: 'timeout', hint: /cannot read/ })
  const hint = transport.hint()
  t.equal(await call('null_error'), 'fine', 'the connection goes on')
  t.equal(transport.hint(), hint)
})

t.test('a reply that comes after its call was given up is no stray line', async (t) => {
  const { transport, ask } = await start(t)
  await failure(ask('echo', {}, 0))
  await ask('echo')
  t.equal(transport.hint(), undefined)
})

/** A launcher as npx is one: the server is its child, ignores signals and the end of stdin. */
function launcher(t: Test) {
  const { script, server_js: server } = inputOf('b11') as { script: string; server_js: string }
  const files = { launch: script, 'server.js': server, 'package.json': '{}' }
  const home = fs.realpathSync(t.testdir(files))
  fs.chmodSync(path.join(home, 'launch'), 0o755)
  return { home, entry: serverOf({ command: path.join(home, 'launch'), args: [], env: { PATH } }) }
}

// Four ways out of tai: here as close(), as endAll(), which its signals and its end call, and below
// as SIGKILL. A handshake that fails closes its transport (§client).
t.test('b11, and the complaint of orphans: a grandchild ends with its launcher', async (t) => {
  for (const way of ['close', 'endAll'] as const) {
    const { home, entry } = launcher(t)
    const transport = await McpStdioTransport.start(entry, worldIn(home), new Redactor())
    const peer = transport
    await peer.request('initialize', {}, { wait })
    const { content } = await peer.request('tools/call', { name: 'echo' }, { wait })
    const group = groupIn(home)
    const pid = Number(/\d+/.exec(JSON.stringify(content))?.[0])
    t.equal(membersOf(group).length, 2, `${pid} and its launcher`)
    const began = performance.now()
    if (way === 'close') await transport.close()
    else ChildGroup.endAll()
    t.ok(await groupIsGone(group), way)
    t.ok(performance.now() - began < 10_000)
    t.strictSame(fs.readdirSync(path.join(home, 'run')), [])
    t.match(await failure(peer.request('ping', {}, { wait })), { kind: 'lost' })
    await transport.close()
  }
})

t.test('b11: what a killed tai left running ends with the next one', async (t) => {
  const { home, entry } = launcher(t)
  const program = `
    import { McpStdioTransport, Redactor } from ${JSON.stringify(path.resolve('tai.ts'))}
    const world = { ...${JSON.stringify(worldIn(home))}, pid: process.pid }
    const transport = await McpStdioTransport.start(${JSON.stringify(entry)}, world, new Redactor())
    await transport.request('initialize', {}, { wait: 10000 })
    console.log('up')`
  const argv = ['--input-type=module-typescript', '-e', program]
  const tai = spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(tai.stdout, 'data')
  const group = groupIn(home)
  tai.kill('SIGKILL')
  await once(tai, 'exit')
  t.ok(membersOf(group).length > 0, 'it does not end by itself')
  reapOrphans(worldIn(home))
  t.ok(await groupIsGone(group))
})

t.test('b13: a program that cannot be started is told by what is missing', async (t) => {
  const home = fs.realpathSync(
    t.testdir({
      bin: { srv: 'no program' },
      ok: { srv: '#!/bin/sh\nexit 3\n', wrap: '#!/usr/bin/env no-such-node\n' },
      'has space': { srv: '#!/bin/sh\n', lost: '#!/no/such/shell -x\n' },
    }),
  )
  const at = (...names: string[]) => path.join(home, ...names)
  for (const file of [
    ['ok', 'srv'],
    ['ok', 'wrap'],
    ['has space', 'srv'],
    ['has space', 'lost'],
  ])
    fs.chmodSync(at(...file), 0o755)
  const world = worldIn(home, { PATH: '/usr/bin:/bin' })
  const failed = (more: Partial<McpEntry>) => startFailure(serverOf({ args: [], ...more }), world)

  t.match(await failed({ command: 'no-such-mcp-cmd' }), {
    kind: 'start',
    message: 'there is no program no-such-mcp-cmd in PATH (/usr/bin:/bin)',
    hint: 'give its full path',
  })
  t.match(await failed({ command: 'npx', env: { PATH: at('ok') } }), {
    message: `there is no program npx in PATH (${at('ok')})`,
    hint: 'give its full path',
  })
  t.match(await failed({ command: 'srv', env: { PATH: `${at('bin')}:/usr/bin:/bin` } }), {
    message: `${at('bin', 'srv')} is not executable`,
    hint: 'make it so with chmod +x',
  })
  for (const command of [at('ok', 'gone'), at('ok')])
    t.match(await failed({ command }), { message: `there is no program ${command}` })
  t.match(await failed({ command: at('has space', 'lost') }), {
    message: /cannot start .*has space\/lost: no such program or interpreter/,
  })
  t.match(await failed({ command: at('has space', 'srv'), cwd: at('does-not-exist') }), {
    message: `its folder ${at('does-not-exist')} does not exist`,
  })
  t.match(await failed({ command: 'true', cwd: at('ok', 'srv') }), { message: /its folder .*srv/ })

  const env = { PATH: `${at('ok')}:/usr/bin:/bin` }
  const { ask } = await start(t, serverOf({ command: 'srv', args: [], env }), { world })
  t.match(await failure(ask('ping')), { kind: 'lost', message: 'it ended with exit code 3' })
  const wrapped = await start(t, serverOf({ command: at('ok', 'wrap'), args: [] }), { world })
  t.match(await failure(wrapped.ask('ping')), {
    kind: 'lost',
    message: 'it ended with exit code 127',
    hint: /no-such-node.*No such file/,
  })
})

t.test('a program is sought where PATH says, never in the folder it runs in', async (t) => {
  const home = fs.realpathSync(t.testdir({ srv: '#!/bin/sh\n' }))
  fs.chmodSync(path.join(home, 'srv'), 0o755)
  const entry = serverOf({ command: 'srv', cwd: home, env: { PATH: ':.:' } })
  t.match(await startFailure(entry, worldIn(home)), { message: /no program srv in PATH \(:\.:\)/ })
  const relative = { ...entry, command: './srv', cwd: '.' }
  const { ask } = await start(t, relative, { world: worldIn(home) })
  t.match(await failure(ask('ping')), { message: 'it ended with exit code 0' })
})

t.test('complaint 37: on Windows npx is started by cmd', async (t) => {
  const home = fs.realpathSync(t.testdir({ cmd: `#!/bin/sh\necho "$@" >&2\nexit 1\n` }))
  fs.chmodSync(path.join(home, 'cmd'), 0o755)
  const world: World = { ...worldIn(home, { Path: `${home}:${PATH}` }), platform: 'win32' }
  const { ask } = await start(t, serverOf({ command: 'npx', args: ['-y', 'x'] }), { world })
  t.match(await failure(ask('ping')), { hint: 'it said: /c npx -y x' })
})

t.test('on Windows a script needs cmd, a program does not', async (t) => {
  const rows: [string, NodeJS.Platform, string[]][] = [
    ['npx', 'win32', ['cmd', '/c', 'npx', 'x']],
    ['NPX.CMD', 'win32', ['cmd', '/c', 'NPX.CMD', 'x']],
    ['uvx', 'win32', ['uvx', 'x']],
    ['npx', 'linux', ['npx', 'x']],
  ]
  for (const [command, platform, argv] of rows)
    t.strictSame(mcpArgv(serverOf({ command, args: ['x'] }), platform), argv)
})

t.test('a server sees what its entry declares and nothing of tai', async (t) => {
  const harmless = { HOME: '/h', LANG: 'C', LC_ALL: 'C', TZ: 'UTC', TMPDIR: '/tmp', USER: 'u' }
  const world = worldIn(fs.realpathSync(t.testdir({ sub: {} })), {
    ...harmless,
    PATH,
    TAI_HOME: '/x',
    OPENAI_API_KEY: 'k',
    NODE_OPTIONS: '--inspect',
    SSH_AUTH_SOCK: '/s',
  })
  const own = { OPENAI_API_KEY: 'its own', LANG: 'de', TAI_X: 'as declared' }
  const { ask } = await start(t, serverOf({ env: own, cwd: 'sub' }), { world })
  const { env, ...more } = await ask('env')
  const seen = Object.entries(Object(env)).filter(([name]) => !name.startsWith('_TAPJS'))
  const { NODE_OPTIONS = '', ...rest } = Object.fromEntries(seen)
  t.strictSame(rest, { ...harmless, PATH, ...own })
  t.notMatch(NODE_OPTIONS, '--inspect', 'the test runner gives its own, tai none')
  t.strictSame(more, { cwd: path.join(world.cwd, 'sub'), argv: [] })
  const marked = serverOf({ env: { A: '[redacted:key]' } })
  t.match(await startFailure(marked, world), { kind: 'start', message: /variable A holds a mark/ })
})

t.test('messages come whole, however their bytes arrive', async (t) => {
  const { transport, heard, ask } = await start(t)
  const params = { text: 'ä€😀"\\\u2028\u0000' }
  t.strictSame(await ask('trickle', params), params)
  t.strictSame(await ask('swarm', { count: 1_000 }), {})
  t.equal(heard.length, 1_000)
  const texts = Array.from({ length: 50 }, (_, n) => ({ text: `${n}`.repeat(10_000) }))
  t.strictSame(await Promise.all(texts.map((text) => ask('echo', text))), texts)
  t.equal(transport.hint(), undefined)
})

t.test('a line may have 10 MB, and one that has more ends the connection', async (t) => {
  const { peer, ask } = await start(t)
  const { text } = await ask('large', { size: MCP_HTTP_MAX_BODY })
  t.ok(String(text).length > 10 * MB - 100)
  const waiting = failure(ask('no reply'))
  t.match(await failure(ask('large', { size: MCP_HTTP_MAX_BODY + 1 })), {
    kind: 'lost',
    message: 'a line of its stdout is over 10.0 MB',
  })
  for (const later of [waiting, failure(peer.notify('later'))])
    t.match(await later, { kind: 'lost' })
})

t.test('a server that does not read is waited for, up to a limit', async (t) => {
  const { transport, peer, ask } = await start(t)
  await ask('deaf')
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const stuck = failure(peer.notify('x'.repeat(MB)))
  await undefined // then the timer runs
  mock.timers.tick(MCP_WRITE_TIMEOUT)
  t.match(await stuck, { kind: 'timeout', message: 'it reads nothing for 30.0 s' })
  mock.timers.reset()
  const waiting = failure(peer.notify('x'.repeat(MB)))
  await transport.close()
  t.match(await waiting, { kind: 'lost' })
})

t.test('a server that closes its stdin is lost to the next message', async (t) => {
  const { ask } = await start(t)
  await ask('mute')
  t.match(await failure(ask('echo')), { kind: 'lost', message: 'it closed its stdin' })
})

t.test('a server that ends tells every waiting call how, and its last words', async (t) => {
  const redactor = new Redactor()
  redactor.add('db', 'hunter2-hunter2')
  const { home, peer, ask } = await start(t, serverOf(), { redactor })
  await ask('say', { to: 'stdout', text: 'connecting with hunter2-hunter2\n' })
  const text = `Error: no \u001b[31mdb\n  at hunter2-hunter2\n  key sk-${'a'.repeat(40)}\n`
  const [first, second] = [failure(ask('no reply')), failure(ask('end', { code: 3, text }))]
  const said = String.raw`Error: no \e[31mdb | at [redacted:db] | key [redacted:api-key]`
  for (const error of await Promise.all([first, second]))
    t.match(error, {
      kind: 'lost',
      message: 'it ended with exit code 3',
      hint: `it said: connecting with [redacted:db] | ${said}`,
    })
  t.match(await failure(ask('echo')), { message: /exit code 3/ }, 'later ones too')
  t.match(await failure(peer.notify('later')), { message: /exit code 3/ })
  const killed = await start(t, serverOf(), { world: worldIn(home) })
  t.match(await failure(killed.ask('end', { signal: 'SIGSEGV', text: '' })), {
    message: 'it was ended by SIGSEGV',
  })
})

t.test('a call without an answer tells what else the server said', async (t) => {
  const { ask } = await start(t)
  await ask('say', { to: 'stderr', text: 'connecting\r\nto the database' })
  await ask('say', { to: 'stdout', text: '{ level: 30 }\n\n{"level":30}\n"text"\n' })
  t.match(await failure(ask('no reply', {}, 100)), {
    kind: 'timeout',
    message: 'no answer to no reply in 100 ms',
    hint: 'it said: connecting | to the database | { level: 30 } | {"level":30} | "text"',
  })
})

t.test('no secret stands in the message of a start that failed', async (t) => {
  const redactor = new Redactor()
  redactor.add('token', 'hunter2-hunter2')
  const world = worldIn(t.testdir())
  const entry = serverOf({ command: '/x/hunter2-hunter2' })
  const { message } = await startFailure(entry, world, redactor)
  t.equal(message, 'there is no program /x/[redacted:token]')
})

t.test('a server is asked to end before it is forced to', async (t) => {
  const ways: [stubborn: Record<string, string>, atLeast: number, atMost: number][] = [
    [{}, 0, 1_900],
    [{ STUBBORN: 'eof' }, 1_900, 3_900],
    [{ STUBBORN: 'all' }, 3_900, 7_000],
  ]
  const root = fs.realpathSync(t.testdir())
  const closings = ways.map(async ([env, atLeast, atMost], n) => {
    const home = path.join(root, `${n}`)
    const world = { ...worldIn(home), cwd: root }
    const { transport, ask } = await start(t, serverOf({ env }), { world })
    await ask('echo')
    const group = groupIn(home)
    const waiting = failure(ask('no reply'))
    const began = performance.now()
    await transport.close()
    const took = performance.now() - began
    t.ok(took >= atLeast && took <= atMost, `${JSON.stringify(env)}: ${Math.round(took)} ms`)
    t.strictSame(membersOf(group), [])
    for (const each of [waiting, failure(ask('echo'))])
      t.match(await each, { kind: 'lost', message: 'the connection was closed' })
    await transport.close()
  })
  await Promise.all(closings)
})

const noPython = spawnSync('python3', ['-c', '']).status === 0 ? false : 'there is no python3'
t.test('a server of Python is spoken to like any other', { skip: noPython }, async (t) => {
  const env = { PATH: process.env['PATH'] ?? '' }
  const { transport, peer, ask, call } = await start(
    t,
    serverOf({ command: 'python3', args: [fake('pyserver.py')], env }),
  )
  t.match(await ask('initialize', { protocolVersion: '2025-11-25' }), {
    serverInfo: { name: 'pyserver' },
  })
  await peer.notify('notifications/initialized')
  t.match(await ask('tools/list'), { tools: [{ name: 'shout' }] })
  t.match(await ask('tools/call', { name: 'shout', arguments: { text: 'grüße' } }), {
    content: [{ text: 'GRÜSSE' }],
  })
  t.equal(await call('shout'), 'nothing to say')
  await t.rejects(ask('tools/call', {}), { message: "KeyError('arguments')" })
  t.equal(transport.hint(), 'it said: pyserver is ready')
})
