// A served tai among others: two servers of one home, its end by signals, what its permission modes
// refuse, and where its key is not. All with the binary.
import t from 'tap'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { STORE_GLANCE, TOOLS } from '../tai.ts'
import { groupIsGone, membersOf } from './fakes/groups.ts'
import { startModel, stuck } from './fakes/model.ts'
import { peer as packaged } from './fakes/peers.ts'
import { begin, connect, KEY, rawPost, send, serve, textOf, type Peer } from './fakes/served.ts'
import { folder, modelEnv, tai } from './fakes/tai.ts'

const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

/** Starts a command in the background of a session; its process group. */
async function background(peer: Peer): Promise<number> {
  await peer.call('process_start', { command: 'exec sleep 60' })
  const pids = [...textOf(await peer.call('process_list')).matchAll(/pid (\d+)/g)]
  return Number(pids.at(-1)?.[1])
}

/** The group of a command that has begun to sleep; asked of another session. */
async function groupIn(peer: Peer, file: string): Promise<number> {
  for (;;) {
    const text = textOf(await peer.call('read_file', { path: file }))
    const pid = Number(/(\d+)\s*$/.exec(text)?.[1])
    if (pid > 0) return pid
  }
}
const SLEEP = 'echo $$ > group; sleep 60'

/** Whether a server still takes connections. */
const accepts = (server: { port: number }): Promise<boolean> =>
  connect(server).then(
    ({ socket }) => (socket.destroy(), true),
    () => false,
  )

t.test('a session begun with one server goes on with another of its key and home', async (t) => {
  const home = folder()
  const cwd = folder()
  const [one, two] = [await serve(t, { home, cwd }), await serve(t, { home, cwd })]
  const other = await serve(t, { home, cwd, key: 'another-key-0123456789' })
  const peer = await begin(one)
  const same = await begin(two, peer.session)
  t.match(await same.call('time_now'), { status: 200, body: { result: {} } })
  t.match(await (await begin(other, peer.session)).ask('ping'), { status: 404 })
  t.match(
    await (await begin({ ...two, key: 'another-key-0123456789' }, peer.session)).ask('ping'),
    { status: 401 },
  )
  const group = await background(peer)
  t.match(await same.end(), { status: 200 })
  await setTimeout(2 * STORE_GLANCE)
  t.match(await peer.ask('ping'), { status: 404, body: { error: { code: -32001 } } })
  t.ok(await groupIsGone(group), 'what it had started ends with it')
  t.match(await peer.end(), { status: 404 })
})

t.test('DELETE ends what the session runs, and no other session', async (t) => {
  const server = await serve(t)
  const [peer, other] = [await begin(server), await begin(server)]
  const groups = [await background(peer), await background(other)]
  const running = peer.call('shell_exec', { command: SLEEP })
  groups.push(await groupIn(other, 'group'))
  t.match(await peer.end(), { status: 200 })
  t.match((await running).body, { error: { code: -32000 } })
  const [first = 0, second = 0, third = 0] = groups
  t.ok(await groupIsGone(first))
  t.ok(await groupIsGone(third))
  t.equal(membersOf(second).length, 1)
})

t.test('a signal ends a server with all it runs, and leaves a sound vault', async (t) => {
  for (const [signal, code, trap] of [
    ['SIGTERM', 143, `trap '' TERM INT; `],
    ['SIGINT', 130, ''],
  ] as const) {
    const model = await startModel([stuck('I am at it')])
    t.teardown(() => model.close())
    const server = await serve(t, { env: modelEnv(model) })
    const [talker, runner, other] = [await begin(server), await begin(server), await begin(server)]
    const chat = talker.call('chat', { message: 'take your time' })
    const shell = runner.call('shell_exec', { command: `${trap}${SLEEP}; sleep 60` })
    const both = Promise.allSettled([chat, shell])
    const { over } = await model.seen(1)
    const groups = [await groupIn(other, 'group'), await background(other)]
    const began = performance.now()
    server.child.kill(signal)
    const ran = await server.done
    t.ok(performance.now() - began < 9_500, `${signal}: ${performance.now() - began} ms`)
    t.match(ran, { code, signal: null }, ran.err)
    t.notMatch(ran.err, /internal|at .*:\d+|Error:/)
    for (const group of groups) t.ok(await groupIsGone(group))
    await over
    t.match(await both, [
      { value: { body: { result: { isError: true, content: [{ text: /^I am at it\n\n/ }] } } } },
      { value: { body: { error: { code: -32000, message: /interrupted/ } } } },
    ])
    t.strictSame(readdirSync(join(server.home, '.tai', 'run')), [])
    const verified = await tai(['audit', 'verify'], { home: server.home })
    t.match(verified, { code: 0, out: /unbroken/ })
    const list = await tai(['session', 'list', '--json'], { home: server.home })
    const [session] = JSON.parse(list.out).sessions
    t.match(session, { title: 'take your time', messages: 2 }, 'with what had been said')
  }
})

t.test('a second Ctrl-C leaves at once, and takes every process along', async (t) => {
  const server = await serve(t)
  const [peer, other] = [await begin(server), await begin(server)]
  peer.call('shell_exec', { command: `trap '' TERM INT; ${SLEEP}; sleep 60` }).catch(() => {})
  const group = await groupIn(other, 'group')
  const busy = await connect(server)
  busy.write(
    rawPost(
      server.port,
      JSON.stringify({
        ...ping,
        method: 'tools/call',
        params: { name: 'shell_exec', arguments: { command: 'sleep 60' } },
      }),
      `Mcp-Session-Id: ${other.session}\r\n`,
    ),
  )
  server.child.kill('SIGINT')
  busy.write(rawPost(server.port, JSON.stringify(ping)))
  const began = performance.now()
  while (await accepts(server)) {}
  server.child.kill('SIGINT')
  t.match(await server.done, { code: 130 })
  t.ok(performance.now() - began < 2_500)
  t.ok(await groupIsGone(group))
})

t.test('while it stops, calls that run have a moment, and new ones are told 503', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const inSession = `Mcp-Session-Id: ${peer.session}\r\n`
  const call = (command: string, id: number) =>
    rawPost(
      server.port,
      JSON.stringify({
        jsonrpc: '2.0',
        id,
        method: 'tools/call',
        params: { name: 'shell_exec', arguments: { command } },
      }),
      inSession,
    )
  const line = await connect(server)
  line.write(call('echo $$ > group; sleep 1.5; echo done', 1))
  await groupIn(await begin(server), 'group')
  server.child.kill('SIGTERM')
  while (await accepts(server)) {}
  line.write(call('touch late', 2))
  await line.closed
  t.match(line.text, /^HTTP\/1\.1 200 OK[\s\S]*"id":1,"result"[\s\S]*done/)
  t.match(line.text, /HTTP\/1\.1 503 [\s\S]*Retry-After: 1\r\n/)
  t.match(await server.done, { code: 143 })
  t.strictSame(readdirSync(server.cwd), ['group'])
})

t.test('without a vault nothing is served, for nothing could be audited', async (t) => {
  const home = folder()
  writeFileSync(join(home, '.tai'), 'a file where the folder should be')
  const ran = await tai(['--serve-mcp', KEY, '--mcp-port', '0'], { home })
  t.equal(ran.code, 1)
  t.equal(ran.out, '')
  t.match(ran.err, /^tai: the vault .*\n {2}\S/)
})

t.test('it runs everything unless told otherwise, and says so loudly', async (t) => {
  const server = await serve(t)
  await server.tells(/whoever sends it/)
  t.match(server.said.err, /serving \d+ tools of .* permission mode danger-full-access/)
  t.match(server.said.err, /THE KEY IS THE AUTHORIZATION/)
  t.equal(server.said.out, `http://127.0.0.1:${server.port}/mcp\n`)
  const peer = await begin(server)
  t.match(textOf(await peer.call('shell_exec', { command: 'echo ran' })), /ran/)
  const list = (await peer.ask('tools/list')).body.result.tools
  t.equal(list.length, TOOLS.length + 2)
})

t.test('a permission mode lowers what it runs, and a denial says why', async (t) => {
  const rows = [
    ['read-only', { write_file: false, shell_exec: false, read_file: true }],
    ['workspace-write', { write_file: true, shell_exec: false, read_file: true }],
    ['prompt', { write_file: false, shell_exec: false, read_file: true }],
    ['allow', { write_file: true, shell_exec: true, read_file: true }],
  ] as const
  const args = {
    write_file: { path: 'new', content: 'x' },
    shell_exec: { command: 'touch made' },
    read_file: { path: 'old' },
  }
  for (const [mode, outcomes] of rows) {
    const server = await serve(t, { args: ['--permission-mode', mode] })
    writeFileSync(join(server.cwd, 'old'), 'x')
    const peer = await begin(server)
    await server.tells(new RegExp(`permission mode ${mode}`))
    for (const [name, isRun] of Object.entries(outcomes)) {
      const { body } = await peer.call(name, args[name as keyof typeof args])
      if (isRun) t.match(body, { result: {} }, `${mode} ${name} ${JSON.stringify(body)}`)
      else
        t.match(
          body.error,
          {
            code: -32001,
            message: /was not run/,
            data: { tool: name, mode, reason: /_/, digest: /^[0-9a-f]{64}$/, hint: /./ },
          },
          `${mode} ${name}`,
        )
    }
  }
})

t.test('a profile that is served with narrows what its clients may do', async (t) => {
  const home = folder()
  const flags = ['--tools', 'read_file,write_file', '--permission-mode', 'read-only']
  const made = await tai(['profile', 'create', 'reader', ...flags], { home })
  t.equal(made.code, 0, made.err)
  const server = await serve(t, { home, args: ['-P', 'reader'] })
  await server.tells(/serving 2 tools .* permission mode read-only/)
  const peer = await begin(server)
  const { tools } = (await peer.ask('tools/list')).body.result
  t.strictSame(
    tools.map(({ name }: { name: string }) => name),
    ['read_file', 'write_file'],
  )
  const { error } = (await peer.call('write_file', { path: 'a', content: 'x' })).body
  t.match(error, { code: -32001, data: { mode: 'read-only' } })
  t.match((await peer.call('chat', { message: 'hi' })).body.error, { code: -32601 })
})

t.test(
  'an MCP server that is denied while it is served ends, and can be allowed again',
  async (t) => {
    const home = folder()
    const file = await packaged('@modelcontextprotocol/server-everything/dist/index.js')
    const argv = ['--name', 'it', '--profile', 'default', '--', process.execPath, file]
    t.match(await tai(['mcp', 'add', '--yes', ...argv], { home }), { code: 0 })
    const client = await begin(await serve(t, { home }))
    const echo = async () =>
      textOf(
        await client.call('mcp_call', { server: 'it', tool: 'echo', args: { message: 'hello' } }),
      )
    t.match(await echo(), /Echo: hello/)
    const running = () => readdirSync(join(home, '.tai', 'run')).length
    t.equal(running(), 1)
    t.match(await tai(['mcp', 'trust', 'deny', 'it'], { home }), { code: 0 })
    t.match(await echo(), /it is not trusted: the user denied it/)
    for (let tries = 0; running() > 0 && tries < 100; tries++) await setTimeout(50)
    t.equal(running(), 0)
    t.match(await tai(['mcp', 'trust', 'allow', 'it'], { home }), { code: 0 })
    t.match(await echo(), /Echo: hello/)
  },
)

t.test('a grant that denies wins in every mode', async (t) => {
  for (const mode of ['danger-full-access', 'allow', 'prompt', 'workspace-write', 'read-only']) {
    const home = folder()
    const denied = await tai(['approval', 'deny', 'read_file'], { home })
    t.equal(denied.code, 0, denied.err)
    const server = await serve(t, { home, args: ['--permission-mode', mode] })
    writeFileSync(join(server.cwd, 'a'), 'x')
    const { body } = await (await begin(server)).call('read_file', { path: 'a' })
    t.match(body.error, { code: -32001, data: { reason: 'deny_grant', mode } }, mode)
  }
})

t.test('the key is nowhere but with its clients', async (t) => {
  const model = await startModel([
    { calls: [{ name: 'shell_exec', args: { command: 'env; cat /proc/$PPID/cmdline' } }] },
    { text: `It is ${KEY}.` },
  ])
  t.teardown(() => model.close())
  for (const way of ['flag', 'variable']) {
    const server = await serve(t, {
      env: { ...modelEnv(model), ...(way === 'variable' && { TAI_MCP_KEY: KEY }) },
      ...(way === 'variable' && { key: '', as: KEY }),
      args: ['-v'],
    })
    const peer = await begin(server)
    const look = {
      command: `env; cat /proc/$PPID/cmdline /proc/$PPID/environ | tr '\\0' '\\n'; cat "${server.home}"/.tai/* | grep -ac '${KEY.slice(0, 6)}''${KEY.slice(6)}'`,
    }
    const replies = [
      await peer.call('shell_exec', look),
      await peer.call('system_info'),
      await peer.call('read_file', { path: KEY }),
      await peer.call('shell_exec', { command: `echo ${KEY} >&2; exit 3`, env: { MORE: KEY } }),
      await peer.call(KEY),
      await peer.call('time_now', { [KEY]: KEY }),
      await peer.post({ jsonrpc: '2.0', id: 1, method: KEY, params: [] }),
      ...(way === 'flag' ? [await peer.call('chat', { message: `what is ${KEY}?` })] : []),
    ]
    for (const { text } of replies) t.notMatch(text, KEY)
    t.match(textOf(replies[0] as never), /\n0\n/, 'the vault does not hold it')
    t.notMatch(JSON.stringify(model.requests.map(({ body }) => body)), KEY)
    server.child.kill('SIGTERM')
    const { err, out } = await server.done
    t.notMatch(err + out, KEY)
    const audit = await tai(['audit', 'list', '--json'], { home: server.home })
    t.notMatch(audit.out, KEY)
    t.match(audit.out, /shell_exec/)
  }
})

t.test('a large result is kept in the vault, in every part of it', async (t) => {
  const server = await serve(t)
  const peer = await begin(server)
  const reply = await peer.call('shell_exec', { command: 'yes 0123456789 | head -c 1000000' })
  t.ok(reply.text.length < 16_000, `${reply.text.length} bytes`)
  t.match(textOf(reply), /cut here; record \w+: read on/)
  t.match(reply.body.result.structuredContent, {
    exit_code: 0,
    stdout: /^0123[\s\S]*\[cut here: /,
    stderr: '',
  })
  t.equal((await send(server, { body: ping })).status, 200)
})
