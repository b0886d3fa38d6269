// `tai mcp`: what a person types, and what the screen says.
/* oxlint-disable no-control-regex -- control characters are looked for */
import * as http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { binary } from './fakes/binary.ts'
import { complains } from './fakes/complaint.ts'
import { groupIsGone } from './fakes/groups.ts'
import { startModel } from './fakes/model.ts'
import { runMain, type Settings } from './fakes/outside.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { ended, folder, modelEnv, start, tai } from './fakes/tai.ts'
import { pasteOf, toolNamed, upstream, wordsOf, type Saying } from './fakes/upstream.ts'
import { person } from './fakes/world.ts'

const json = (run: { out: string }) => JSON.parse(run.out)

/** A home, a server that is not added yet, and `tai mcp` over both. */
function homeWith(saying: Saying = { tools: [toolNamed('ping')] }, name = 'demo') {
  const home = folder()
  const stub = upstream(home, saying, { name })
  const mcp = (args: string[], settings: Settings = {}) =>
    runMain(['mcp', ...args], { home, ...settings })
  const add = (...args: string[]) => mcp(['add', '--name', name, ...args, ...wordsOf(stub.entry)])
  const names = async (): Promise<string[]> =>
    json(await mcp(['list', '--json'])).servers.map((each: { name: string }) => each.name)
  return { home, stub, mcp, add, names }
}

t.test('a command is shown, agreed to, tried and stored; it is not enabled by that', async (t) => {
  const w = homeWith()
  const typed = person('y')
  const run = await w.mcp(['add', '--name', 'demo', ...wordsOf(w.stub.entry)], { prompter: typed })
  t.match(run, { code: 0, err: '' })
  t.equal(run.out, 'demo: stdio, 1 tool: ping; not enabled (tai mcp enable)\n')
  t.match(typed.questions, [
    /^demo starts: \S*node \S+mcpserver\.ts \S+demo\.json\n {2}in folder: \S+\nAllow this\?$/,
  ])
  t.match(await w.mcp(['list']), {
    out: /^name +transport .*\ndemo +stdio +- +1 +- +\S*node \S+mcpserver\.ts \S+demo\.json\n$/,
  })
  t.match(json(await w.mcp(['list', '--json'])), {
    servers: [{ name: 'demo', transport: 'stdio', profiles: [], tools: 1, withheld: [] }],
  })
})

t.test('an address without http:// is told so', async (t) => {
  const w = homeWith()
  for (const address of ['localhost:3000', 'localhost:3000/mcp', 'example.org:80'])
    t.match(await w.mcp(['add', address]), {
      code: 1,
      err: RegExp(`no server ${address}\\n.* an address begins with http://`),
    })
})

t.test('nothing is started or stored without consent', async (t) => {
  const w = homeWith()
  const alone = await w.add()
  complains(t, alone, 5, /^tai: nobody agreed to this: demo starts: /, 'nobody there')
  t.match(alone.err, /add --yes\n$/)
  const no = await w.mcp(['add', '--name', 'demo', ...wordsOf(w.stub.entry)], {
    prompter: person('n'),
  })
  t.match(no, { code: 5, out: '', err: /nobody agreed/ })
  t.strictSame(w.stub.seen(), [])
  t.strictSame(await w.names(), [])
  const audit = json(await runMain(['audit', 'list', '--json'], { home: w.home }))
  t.match(JSON.stringify(audit), /"mcp-consent".*"verdict\\?":\\?"deny/)
})

t.test('--yes agrees, shows to what, and is named in the audit', async (t) => {
  const w = homeWith()
  const run = await w.add('--yes', '--profile', 'work')
  t.match(run, {
    code: 0,
    err: /^tai: demo starts: .*demo\.json\ntai: {3}in folder: \S+\n$/,
    out: /; enabled for work\n$/,
  })
  const audit = json(await runMain(['audit', 'list', '--json'], { home: w.home }))
  t.match(JSON.stringify(audit), /--yes/)
  t.match(json(await w.mcp(['list', '--json'])), { servers: [{ profiles: ['work'] }] })
})

t.test('nothing is stored of a server that does not answer as one', async (t) => {
  const cases: [string[], RegExp, RegExp][] = [
    [['no-such-program'], /there is no program no-such-program in PATH/, /full path/],
    [['/bin/echo', 'hi'], /ended with exit code 0/, /it said: hi/],
    [[process.execPath, '-e', 'process.exit(7)'], /ended with exit code 7/, /./],
  ]
  for (const [words, message, hint] of cases) {
    const { mcp, names } = homeWith()
    const run = await mcp(['add', '--yes', '--name', 'x', '--', ...words])
    t.match(run, { code: 1, out: '' }, words.join(' '))
    t.match(run.err, message)
    t.match(run.err, hint)
    t.strictSame(await names(), [])
  }
})

t.test('a file, a paste and stdin are read alike', async (t) => {
  const w = homeWith()
  const paste = pasteOf(w.stub.entry)
  writeFileSync(join(w.home, 'servers.json'), paste)
  for (const source of ['servers.json', paste]) {
    t.match(await w.mcp(['add', '--yes', source]), { code: 0, out: /^demo: stdio, 1 tool: ping/ })
    t.match(json(await w.mcp(['list', '--json'])), { servers: [{ source: 'config-json' }] })
    t.match(await w.mcp(['remove', 'demo']), { code: 0, out: 'removed  demo\n' })
  }
  const piped = await tai(['mcp', 'add', '--yes', '-'], { home: w.home, stdin: paste })
  t.match(piped, { code: 0, out: /^demo: stdio, 1 tool: ping/ })
  const empty = await tai(['mcp', 'add', '--yes', '-'], { home: w.home })
  complains(t, empty, 6, /it has no server/, 'empty stdin')
})

t.test('a TOML entry that says enabled is, for the profile of the run', async (t) => {
  const w = homeWith()
  const { command = '', args } = w.stub.entry
  const toml = (enabled: string) =>
    `[mcp_servers.demo]\ncommand = '${command}'\nargs = ${JSON.stringify(args)}\n${enabled}\n`
  for (const [enabled, says] of [
    ['enabled = true', /enabled for default/],
    ['enabled = false', /not enabled/],
    ['', /not enabled/],
  ] as const) {
    t.match(await w.mcp(['add', '--yes', toml(enabled)]), { code: 0, out: says }, enabled)
    t.match(json(await w.mcp(['list', '--json'])), { servers: [{ source: 'config-toml' }] })
    await w.mcp(['remove', 'demo'])
  }
})

t.test('each of several stands alone; one that fails fails the run', async (t) => {
  const w = homeWith()
  const broken = { ...w.stub.entry, name: 'broken', command: 'no-such-program' }
  const run = await w.mcp(['add', '--yes', pasteOf(broken, w.stub.entry)])
  t.match(run, { code: 1, out: /^demo: stdio/, err: /broken: there is no program/ })
  t.strictSame(await w.names(), ['demo'])
  const told = json(await w.mcp(['add', '--yes', '--json', pasteOf(broken, w.stub.entry)]))
  t.match(told, {
    servers: [{ name: 'demo', tools: ['ping'] }],
    failed: [/broken: there is no program/],
  })
  const named = await w.mcp(['add', '--yes', '--name', 'x', pasteOf(broken, w.stub.entry)])
  complains(t, named, 2, /--name is for one server/, '--name with several')
})

t.test('what cannot be a server is refused before anything starts', async (t) => {
  const w = homeWith()
  await w.add('--yes')
  const cases: [string[], number, RegExp][] = [
    [['add', '{"mcpServers": {"a": {"command": }}}'], 6, /line 1, column 34/],
    [['add', '{"a": 1}'], 6, /no server/],
    [['add', 'nothere'], 1, /there is no server nothere/],
    [['add', 'nothere.json'], 1, /there is no server nothere\.json\n.*nor such a file/],
    [['add', '--name', 'a\u001b[2J', '--', 'x'], 6, /is no name for a server/],
    [['enable', 'dem'], 1, /there is no server dem\n.*did you mean demo\?/],
    [['disable', 'x\u001b[2Jx'], 1, /there is no server x\\e\[2Jx/],
    [['remove', 'nope'], 1, /there is no server nope/],
    [['pins', 'nope'], 1, /there is no server nope/],
    [['tools', 'nope'], 1, /there is no server nope/],
    [['consent', 'nope'], 1, /there is no server nope/],
    [['call', 'nope', 'ping'], 1, /there is no server nope/],
    [['call', 'demo', 'pong'], 1, /demo has no tool pong\n.*`tai mcp tools`/],
    [['call', 'demo', 'ping'], 1, /ping of demo cannot be called: not_enabled/],
    [['call', 'demo', 'ping', '{a'], 1, /not_enabled\n.*`tai mcp enable demo`/],
    [['add', 'npx', '-y', 'thing'], 2, /unknown flag -y\n.*put them after --/],
  ]
  const before = w.stub.seen().length
  for (const [args, code, message] of cases)
    complains(t, await w.mcp(args), code, message, args.join(' '))
  await w.mcp(['enable', 'demo'])
  complains(t, await w.mcp(['call', 'demo', 'ping', '[1]']), 2, /ARGS is no JSON object/, 'ARGS')
  t.equal(w.stub.seen().length, before)
})

t.test('a stored name is tried again, and enabled', async (t) => {
  const w = homeWith()
  await w.add('--yes')
  const before = w.stub.seen().length
  t.match(await w.mcp(['add', 'demo']), { code: 0, out: /; enabled for default\n$/ })
  t.ok(w.stub.seen().length > before, 'it was asked')
  t.match(await w.mcp(['add', 'demo', '--profile', 'work']), {
    out: /enabled for default, work\n$/,
  })
  t.strictSame(await w.names(), ['demo'])
  t.match(json(await w.mcp(['list', '--json'])), { servers: [{ source: 'explicit' }] })
})

t.test('another server under the name is refused, and the first one stays', async (t) => {
  const w = homeWith()
  await w.add('--yes')
  const other = await w.mcp(['add', '--yes', '--name', 'demo', '--', '/bin/echo'])
  complains(t, other, 1, /there is another server named demo/, 'another')
  t.match(await w.mcp(['list']), { out: /mcpserver\.ts/ })
})

/** A server over HTTP, whose tool `whoami` refuses with the Authorization it was sent. */
async function webServer(t: { teardown(work: () => void): void }) {
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'h', version: '1' },
    },
    'tools/list': { tools: [toolNamed('ping'), toolNamed('whoami')] },
  }
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += String(piece)
    const { id, method } = JSON.parse(body)
    const error = { code: -32001, message: `not you: ${request.headers.authorization}` }
    const said = results[method] ? { result: results[method] } : { error }
    response.writeHead(id === undefined ? 202 : 200, { 'content-type': 'application/json' })
    response.end(id === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id, ...said }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

t.test('a header of an entry is sent, and comes back redacted', async (t) => {
  const url = `http://127.0.0.1:${await webServer(t)}/mcp`
  const w = homeWith()
  const secret = 'from-the-vault-77'
  await runMain(['secret', 'set', 'WEB_TOKEN'], { home: w.home, prompter: person(secret) })
  const headers = { Authorization: 'Bearer ${WEB_TOKEN}' }
  const paste = JSON.stringify({ mcpServers: { web: { url, headers } } })
  const added = await w.mcp(['add', '--yes', '--profile', 'default', paste])
  t.match(added, { code: 0, out: /^web: http, 2 tools/, err: /sends headers: Authorization/ })
  t.match(added.err, /fills in: WEB_TOKEN \(a secret of the vault\)/)
  const run = await w.mcp(['call', 'web', 'whoami', '--json'])
  t.match(run, { code: 1, out: /not you: (Bearer )?\[redacted:\w+\]/ })
  t.notMatch(run.out + run.err + added.out + added.err, secret)
  t.match(json(run), { structured: { code: 'upstream_error', jsonrpcCode: -32001 } })
})

t.test('an address is added with a name of its host', async (t) => {
  const port = await webServer(t)
  const w = homeWith()
  const run = await w.mcp(['add', '--yes', `http://127.0.0.1:${port}/mcp?api_key=hush-hush-hush`])
  t.match(run, { code: 0, out: /^server: http, 2 tools: ping, whoami/ })
  t.notMatch(run.err, 'hush-hush-hush')
  t.notMatch((await w.mcp(['list'])).out, 'hush-hush-hush')
  const nobody = await w.mcp(['add', '--yes', 'http://127.0.0.1:1/mcp', '--name', 'other'])
  t.match(nobody, { code: 1, out: '', err: /other: .*connection refused/ })
  t.strictSame(await w.names(), ['server'])
})

t.test('what a server says of itself can do nothing to the screen', async (t) => {
  const evil = '\u001b[2J\u001b]0;owned\u0007\u202eevil'
  const tools = [toolNamed(`p${evil}`, `Does\n${evil}`), { name: evil.repeat(2), inputSchema: 7 }]
  const w = homeWith({ tools, greeting: evil, calls: { [`p${evil}`]: { die: evil } } })
  const runs = [await w.add('--yes', '--profile', 'default'), await w.mcp(['list'])]
  const [tool = ''] = json(await w.mcp(['tools', '--json'])).tools.map(
    (each: { name: string }) => each.name,
  )
  runs.push(await w.mcp(['tools']), await w.mcp(['call', 'demo', tool]))
  w.stub.say({ tools: [toolNamed(`p${evil}`, `Other ${evil}`)] })
  runs.push(await w.mcp(['pins', 'demo']), await w.mcp(['list']))
  for (const [i, run] of runs.entries()) {
    t.notMatch(run.out + run.err, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/, `${i}`)
    t.match(run.out + run.err, /\S/)
  }
})

t.test('no secret of an argument is shown in lists', async (t) => {
  const w = homeWith()
  const secret = 'sk-abcdefghij1234567890ABCDEFGH'
  const added = await w.mcp([
    'add',
    '--yes',
    '--name',
    'demo',
    ...wordsOf(w.stub.entry),
    '--key',
    secret,
  ])
  t.equal(added.code, 0, added.err)
  for (const args of [['list'], ['list', '--json']])
    t.notMatch((await w.mcp(args)).out, secret, args.join(' '))
})

t.test(
  'tools are listed with their names and states, those of a disabled server too',
  async (t) => {
    const w = homeWith({ tools: [toolNamed('ping', 'One\nline.'), toolNamed('Pong')] })
    await w.add('--yes')
    t.match(await w.mcp(['tools', 'demo']), {
      out: /mcp_demo_ping {2}not_enabled {2}One line.\nmcp_demo_pong {2}not_enabled {2}It does Pong.\n$/,
    })
    t.match(await w.mcp(['enable', 'demo']), { code: 0, out: 'demo is enabled for default\n' })
    t.match(await w.mcp(['tools']), {
      out: 'name           state    description\nmcp_demo_ping  offered  One line.\nmcp_demo_pong  offered  It does Pong.\n',
    })
    t.strictSame(json(await w.mcp(['tools', '--json'])).tools[1], {
      server: 'demo',
      tool: 'Pong',
      name: 'mcp_demo_pong',
      state: 'offered',
      description: 'It does Pong.',
    })
    t.match(await w.mcp(['disable', 'demo']), {
      code: 0,
      out: 'demo is disabled for default\n',
    })
    t.match(await w.mcp(['tools']), { out: /mcp_demo_ping +not_enabled/ })
  },
)

t.test('call prints what the tool says; one that failed fails the run', async (t) => {
  const failed = { result: { content: [{ type: 'text', text: 'no such owner' }], isError: true } }
  const calls = { fail: failed, die: { die: 'out of cheese' } }
  const w = homeWith({ tools: ['ping', 'fail', 'die'].map((name) => toolNamed(name)), calls })
  await w.add('--yes', '--profile', 'default')
  const ping = await w.mcp(['call', 'demo', 'ping', '{"a":1}'])
  t.match(ping, { code: 0, err: '' })
  t.match(json(ping), { name: 'ping', arguments: { a: 1 } })
  t.match(await w.mcp(['call', 'demo', 'mcp_demo_ping']), { code: 0 }, 'by the name models use')
  t.match(await w.mcp(['call', 'demo', 'fail']), { code: 1, out: 'no such owner\n' })
  t.match(json(await w.mcp(['call', 'demo', 'fail', '--json'])), { isError: true })
  t.match(await w.mcp(['call', 'demo', 'die']), {
    code: 1,
    out: '',
    err: /exit code 3\s.*out of cheese/,
  })
  t.match(json(await w.mcp(['call', 'demo', 'die', '--json'])), {
    structured: { code: 'upstream_mcp_unavailable', server: 'demo', tool: 'die' },
  })
})

t.test('pins shows what changed, as a diff, and grants one or all', async (t) => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => toolNamed(name)) as [object, object, object]
  const w = homeWith({ tools: [a, b] })
  await w.add('--yes', '--profile', 'default')
  t.match(await w.mcp(['pins', 'demo']), { code: 0, out: /^all tools are as they were/ })
  w.stub.say({ tools: [{ ...a, description: 'It reads more.' }, b, c] })
  const shown = await w.mcp(['pins', 'demo'])
  t.match(shown.out, /^changed: a\n/)
  t.match(shown.out, /\n-It does a\.\n\+It reads more\.\n/)
  t.match(shown.out, /\nadded: c\n[^]*\n\+It does c\.\n/)
  t.match(shown.out, /`tai mcp pins demo --grant TOOL` accepts one, --grant-all all\n$/)
  t.match(await w.mcp(['list']), { out: / 2 +a, c / })
  t.match(await w.mcp(['pins', 'demo', '--grant', 'nope']), {
    code: 1,
    err: /no tool nope of demo/,
  })
  t.match(await w.mcp(['pins', 'demo', '--grant', 'c']), { out: /^granted c\nchanged: a\n/ })
  t.match(json(await w.mcp(['pins', 'demo', '--grant-all', '--json'])), {
    granted: ['a'],
    tools: [],
  })
  t.match(await w.mcp(['call', 'demo', 'c']), { code: 0 })
})

t.test('what waits for consent is shown, and agreed to with --yes', async (t) => {
  const w = homeWith()
  await w.add('--yes')
  t.match(await w.mcp(['consent']), { code: 0, out: 'nothing waits for consent\n' })
  const { Store } = await import('../tai.ts')
  const { makeWorld } = await import('./fakes/vault.ts')
  const store = await Store.open(makeWorld(join(w.home, '.tai')))
  store.db.run('DELETE FROM mcp_consents')
  store.close()
  await w.mcp(['add', 'demo']) // nobody there: not agreed to
  t.match(await w.mcp(['consent']), { code: 0, out: /^demo starts: / })
  complains(t, await w.mcp(['enable', 'demo']), 5, /nobody agreed to this: demo starts/, 'enable')
  t.match(await w.mcp(['consent', 'demo', '--yes']), { code: 0, out: /^demo starts: / })
  t.match(await w.mcp(['enable', 'demo']), { code: 0, err: '' })
})

t.test('one tool can be granted by name, and then runs in a pipe; others do not', async (t) => {
  const w = homeWith({ tools: [toolNamed('ping'), toolNamed('pong')] })
  await w.add('--yes', '--profile', 'default')
  const granted = await runMain(['approval', 'grant', 'mcp_demo_ping'], { home: w.home })
  t.equal(granted.code, 0, granted.err)
  const model = await startModel([
    {
      calls: [
        { name: 'mcp_demo_ping', args: {} },
        { name: 'mcp_demo_pong', args: {} },
      ],
    },
    { text: 'done' },
  ])
  t.teardown(() => model.close())
  const run = await tai(['go on'], { home: w.home, env: modelEnv(model), stdin: 'text' })
  t.equal(run.out, 'done\n', run.err)
  t.match(run.err, /mcp_demo_pong .*was not run/)
  t.strictSame(
    w.stub.calls().map(({ params }) => params?.['name']),
    ['ping'],
  )
  const wrong = await runMain(['approval', 'grant', 'mcp_demo_pin'], { home: w.home })
  t.match(wrong, { code: 2, err: /no tool named/ })
})

t.test('removal is for good', async (t) => {
  const w = homeWith()
  await w.add('--yes', '--profile', 'default')
  t.match(await w.mcp(['remove', 'demo']), { code: 0, out: 'removed  demo\n' })
  t.strictSame(await w.names(), [])
  t.match(await w.add('--yes'), { code: 0, out: /not enabled/ }, 'it starts from nothing')
})

t.test('servers of other programs are listed, and added by name or all of them', async (t) => {
  const w = homeWith()
  const none = await w.mcp(['import'])
  t.match(none, { code: 0, out: 'no servers\n' })
  const second = { ...w.stub.entry, name: 'second' }
  writeFileSync(join(w.home, '.claude.json'), pasteOf(w.stub.entry, second))
  const listed = await w.mcp(['import'])
  t.match(listed.out, /\ndemo +Claude Code {2}stdio +\S+\.claude\.json\nsecond +Claude Code/)
  t.strictSame(await w.names(), [], 'nothing is added by looking')
  t.match(json(await w.mcp(['import', '--json'])), {
    servers: [{ name: 'demo', host: 'Claude Code', transport: 'stdio' }, { name: 'second' }],
  })
  complains(t, await w.mcp(['import', '--yes', 'demi']), 1, /no host has a server demi/, 'a name')
  const typed = person('y')
  const one = await w.mcp(['import', 'demo'], { prompter: typed })
  t.match(one, { code: 0, out: /^demo: stdio, 1 tool/ })
  t.match(typed.questions, [/^demo starts: /])
  t.match(await w.mcp(['import', '--yes', 'all']), { code: 0, out: /second: stdio, 1 tool/ })
  t.strictSame(await w.names(), ['demo', 'second'])
  const before = readFileSync(join(w.home, '.claude.json'), 'utf8')
  t.equal(before, pasteOf(w.stub.entry, second), 'their file is as it was')
})

t.test(
  'at a terminal consent is one key, and what a server says cannot touch it (d11)',
  async (t) => {
    if (!ptyAvailable) return t.comment('there are no pseudo-terminals here')
    const text =
      '\u001b]0;owned\u0007\u001b[2J\u001b[31mred\u001b[0m\rhidden\u0000\b \u202erev \ufffdPNG'
    const calls = { ansi: { result: { content: [{ type: 'text', text }] } } }
    const w = homeWith({ tools: [toolNamed('ansi')], calls })
    const command = `'${await binary()}' mcp`
    const env = { HOME: w.home, TAI_HOME: join(w.home, '.tai') }
    const words = wordsOf(w.stub.entry).join(' ')
    const added = await runInPty(
      `${command} add --name demo --profile default ${words}`,
      [{ wait: /demo starts: [^]*Allow this\?[^]*\[y\/n\]/, type: 'y\r' }],
      { env },
    )
    t.equal(added.code, 0)
    t.match(added.output, /demo: stdio, 1 tool: ansi; enabled for default/)
    const called = await runInPty(`${command} call demo ansi`, [], { env })
    t.equal(called.code, 0)
    t.match(called.output, /\\e\]0;owned\\u\{7\}\\e\[2J\\e\[31mred\\e\[0m\\rhidden/)
    for (const bad of ['\u001b]0', '\u001b[2J', '\u001b[31m', '\u0007', '\u202e'])
      t.notOk(called.output.includes(bad), JSON.stringify(bad))
  },
)

t.test('Ctrl-C in a call takes it back and ends the server', async (t) => {
  const calls = { hang: { hang: true } } as const
  const w = homeWith({ tools: [toolNamed('hang')], calls })
  await w.add('--yes', '--profile', 'default')
  const child = await start(['mcp', 'call', 'demo', 'hang'], { home: w.home })
  child.stdin.end()
  const done = ended(child)
  await w.stub.got('tools/call')
  child.kill('SIGINT')
  const run = await done
  t.match(run, { code: 130, out: '' }, run.err)
  t.notMatch(run.err, /\n\s+at /)
  const [asked] = w.stub.calls()
  t.ok(await groupIsGone(asked?.pid ?? 0))
  t.match(w.stub.seen().at(-1), {
    method: 'notifications/cancelled',
    params: { requestId: asked?.id },
  })
})

t.test('Ctrl-C while a server starts stores nothing and leaves nothing running', async (t) => {
  const w = homeWith()
  const file = join(w.home, 'pid')
  const script = `require('fs').writeFileSync('${file}', String(process.pid)); setInterval(() => {}, 1e3)`
  const words = ['--', process.execPath, '-e', script]
  const child = await start(['mcp', 'add', '--yes', '--name', 'x', ...words], { home: w.home })
  child.stdin.end()
  const done = ended(child)
  const pid = await new Promise<number>((resolve) => {
    const timer = setInterval(() => {
      if (!existsSync(file) || readFileSync(file, 'utf8') === '') return
      clearInterval(timer)
      resolve(Number(readFileSync(file, 'utf8')))
    }, 20)
  })
  child.kill('SIGINT')
  t.match(await done, { code: 130, out: '' })
  t.ok(await groupIsGone(pid))
  t.strictSame(await w.names(), [])
})

// --- trust ---

const policyOf = (run: { out: string }) => {
  const { ok, policy } = json(run)
  t.equal(ok, true)
  return policy.servers
}

t.test('trust: an empty policy, allow, deny, inspect, revoke', async (t) => {
  const w = homeWith()
  const trust = (...args: string[]) => w.mcp(['trust', ...args])
  const fresh = { trusted: true, allowed_tools: [], denied_tools: [], expires_at: null }
  t.match(await trust('list', '--json'), { code: 0, out: '{"ok":true,"policy":{"servers":{}}}\n' })
  await w.add('--yes')
  t.strictSame(policyOf(await trust('list', '--json')), { demo: fresh }, 'by consent')
  t.strictSame(policyOf(await trust('deny', 'demo', '--json')), {
    demo: { ...fresh, trusted: false },
  })
  const steps: [words: string, servers: object][] = [
    ['deny demo --tool a --tool b', { trusted: false, denied_tools: ['a', 'b'] }],
    ['allow demo --tool a --tool c', { allowed_tools: ['a', 'c'], denied_tools: ['b'] }],
    ['deny demo --tool a', { allowed_tools: ['a', 'c'], denied_tools: ['b', 'a'] }],
    ['deny demo --tool a', { allowed_tools: ['a', 'c'], denied_tools: ['b', 'a'] }],
    ['inspect demo', { allowed_tools: ['a', 'c'], denied_tools: ['b', 'a'] }],
  ]
  for (const [words, facts] of steps)
    t.strictSame(
      policyOf(await trust(...words.split(' '), '--json')),
      { demo: { ...fresh, ...facts } },
      words,
    )
  t.match(await trust('list'), { code: 0, out: /demo +true +a, c +b, a +-\n$/ })
  t.strictSame(policyOf(await trust('revoke', 'demo', '--json')), {})
  for (const verb of ['inspect', 'revoke']) {
    const run = await trust(verb, 'demo', '--json')
    t.equal(run.code, 1)
    t.match(json(run), { ok: false, error: /^demo is neither trusted nor denied$/ })
    complains(t, await trust(verb, 'demo'), 1, /^tai: demo is neither/, verb)
  }
  const audit = await runMain(['audit', 'list', '--json'], { home: w.home })
  const entries: { kind: string; data: object }[] = json(audit).entries
  t.match(
    entries.find(({ kind }) => kind === 'mcp_server_trust_revoked')?.data,
    { server: 'demo', allowed_tools: ['a', 'c'], denied_tools: ['b', 'a'] },
    'with what there was',
  )
  t.equal(entries.filter(({ kind }) => kind === 'mcp_server_trust_changed').length, 5)
})

t.test('trust deny stands above enablement, until it is allowed again', async (t) => {
  const w = homeWith()
  await w.add('--yes', '--profile', 'default')
  t.equal((await w.mcp(['trust', 'deny', 'demo'])).code, 0)
  const seen = w.stub.seen().length
  const state = async () => json(await w.mcp(['tools', '--json'])).tools[0].state
  t.equal(await state(), 'trust_denied')
  const denied = /^tai: demo is not trusted: the user denied it\n.*tai mcp trust allow demo/
  for (const words of ['enable demo --yes', 'call demo ping', 'add demo --yes'])
    complains(t, await w.mcp(words.split(' ')), 5, denied, words)
  t.equal(w.stub.seen().length, seen)
  t.equal((await w.mcp(['trust', 'allow', 'demo'])).code, 0)
  t.equal(await state(), 'offered')
  t.equal((await w.mcp(['call', 'demo', 'ping'])).code, 0)
  t.equal((await w.mcp(['trust', 'revoke', 'demo'])).code, 0)
  t.equal(await state(), 'not_enabled')
  complains(t, await w.mcp(['enable', 'demo']), 5, /^tai: nobody agreed to this/, 'asked anew')
  t.equal((await w.mcp(['enable', 'demo', '--yes'])).code, 0)
  t.equal(await state(), 'offered')
})

t.test('a denied tool is lifted by the command that the error names', async (t) => {
  const w = homeWith()
  await w.add('--yes', '--profile', 'default')
  t.equal((await w.mcp(['trust', 'deny', 'demo', '--tool', 'pi*'])).code, 0)
  const denied = await w.mcp(['call', 'demo', 'ping'])
  complains(t, denied, 5, /the user denied this tool\n/, 'denied')
  const [, words = ''] = /`tai mcp (trust allow demo --tool [^`]*)`/.exec(denied.err) ?? []
  t.equal((await w.mcp(words.replaceAll("'", '').split(' '))).code, 0)
  t.equal((await w.mcp(['call', 'demo', 'ping'])).code, 0)
  const trust = policyOf(await w.mcp(['trust', 'inspect', 'demo', '--json']))
  t.match(trust, { demo: { allowed_tools: [], denied_tools: [] } }, 'the others are as they were')
})

t.test('what is said of trust is said of every spelling of the name', async (t) => {
  const w = homeWith()
  await w.add('--yes', '--profile', 'default')
  const denied = await w.mcp(['trust', 'deny', 'Demo', '--json'])
  t.match(policyOf(denied), { demo: { trusted: false } })
  complains(t, await w.mcp(['call', 'demo', 'ping']), 5, /demo is not trusted/, 'denied')
  t.match(policyOf(await w.mcp(['trust', 'inspect', 'DEMO', '--json'])), {
    demo: { trusted: false },
  })
  t.strictSame(policyOf(await w.mcp(['trust', 'revoke', 'Demo', '--json'])), {})
  complains(t, await w.mcp(['enable', 'demo']), 5, /^tai: nobody agreed to this/, 'asked anew')
})

t.test('a server can be denied before it is there', async (t) => {
  const w = homeWith()
  const run = await w.mcp(['trust', 'deny', 'demo'])
  t.match(run, {
    code: 0,
    err: 'tai: there is no server demo yet; this counts once there is one\n',
  })
  complains(t, await w.add('--yes', '-q'), 5, /^tai: demo is not trusted/, 'denied')
  t.strictSame(w.stub.seen(), [])
  t.strictSame(await w.names(), [])
})

t.test('trust for a time says until when', async (t) => {
  const w = homeWith()
  for (const [given, ms] of [
    ['90s', 90_000],
    ['30m', 1_800_000],
    ['12h', 43_200_000],
    ['7d', 604_800_000],
  ] as const) {
    const before = Date.now()
    const run = await w.mcp(['trust', 'allow', 'demo', '--ttl', given, '--json'])
    const end = Date.parse(policyOf(run).demo.expires_at)
    t.ok(end >= before + ms && end <= Date.now() + ms, given)
  }
  const again = await w.mcp(['trust', 'allow', 'demo', '--json'])
  t.equal(policyOf(again).demo.expires_at, null, 'only when it is given')
  for (const wrong of ['-1h', '1', 'd', '1w', '999999999d', 'never'])
    t.match(
      await w.mcp(['trust', 'allow', 'demo', `--ttl=${wrong}`]),
      { code: 2, err: /is no time\n {2}such as 30m, 12h, 7d or .*\n$/ },
      wrong,
    )
})

t.test('a form of trust that is none is a usage error and changes nothing', async (t) => {
  const w = homeWith()
  for (const words of [
    'show',
    'allow',
    'deny',
    'revoke',
    'inspect',
    'list demo',
    'constructor demo',
    'deny demo --ttl 1h',
    'revoke demo --tool a',
    'inspect demo --tool a',
    'list --ttl 1h',
  ])
    complains(t, await w.mcp(['trust', ...words.split(' ')]), 2, /^tai: /, words)
  const [tool, ttl] = [/--tool is given, but empty/, /--ttl 2020-01-01 is over/]
  for (const [words, says] of [
    [['deny', ''], /usage: tai mcp trust deny SERVER/],
    [['deny', 'demo', '--tool', ''], tool],
    [['allow', 'demo', '--tool', 'a', '--tool='], tool],
    [['allow', 'demo', '--ttl', '2020-01-01'], ttl],
  ] as const)
    complains(t, await w.mcp(['trust', ...words]), 2, says, words.join(' '))
  t.match(await w.mcp(['trust', 'list', '--json']), {
    out: '{"ok":true,"policy":{"servers":{}}}\n',
  })
})
