import * as fs from 'node:fs'
import * as path from 'node:path'
import t, { type Test } from 'tap'
import {
  Config,
  configPaths,
  explain,
  parseSetting,
  type SettingKey,
  SETTINGS,
  variableOf,
  type World,
} from '../tai.ts'

type Places = {
  flags?: Record<string, string>
  env?: Record<string, string>
  project?: string
  home?: string
  stored?: Record<string, string>
}

const worldAt = (at: string, env: Record<string, string> = {}): World => ({
  env,
  platform: 'linux',
  cwd: path.join(at, 'project'),
  home: path.join(at, 'home'),
  pid: 1,
  now: () => 0,
  randomBytes: (size) => Buffer.alloc(size),
})

/** A home and a project with the given files, loaded for real. */
async function load(t: Test, places: Places): Promise<Config & { at: string }> {
  const at = fs.realpathSync(t.testdir({ home: {}, project: { '.tai': {} } }))
  const put = (name: string, text: string | undefined) =>
    text === undefined ? undefined : fs.writeFileSync(path.join(at, name), text)
  put('home/config.toml', places.home)
  put('project/.tai/config.toml', places.project)
  const { flags = {}, stored = {} } = places
  const root = path.join(at, 'project')
  const config = await Config.load(worldAt(at, places.env), { flags, stored, root })
  return Object.assign(config, { at })
}

t.test('a value comes from the first place that has one, and names what it shadows', async (t) => {
  const all: Places = {
    flags: { max_steps: '1' },
    env: { TAI_MAX_STEPS: '2' },
    project: 'max_steps = 3',
    home: 'max_steps = 4',
    stored: { max_steps: '5' },
  }
  const order = ['flags', 'env', 'project', 'home', 'stored'] as const
  for (const [i, place] of order.entries()) {
    const config = await load(t, all)
    t.equal(config.number('max_steps'), i + 1)
    const at = config.at
    const sources = [
      'flag --max-steps',
      'TAI_MAX_STEPS',
      path.join(at, 'project/.tai/config.toml'),
      path.join(at, 'home/config.toml'),
      'tai config set',
      'default',
    ]
    const found = config.explain('max_steps')
    t.equal(found.source, sources[i])
    t.strictSame(
      found.shadows,
      sources
        .slice(i + 1)
        .map((source, at) => `${source === 'default' ? 50 : i + at + 2} (${source})`),
    )
    delete all[place]
  }
  const config = await load(t, {})
  t.equal(config.number('max_steps'), 50)
  t.strictSame(config.explain('max_steps').shadows, [])
})

t.test('every setting has a variable, a type, help, and a place in `all`', async (t) => {
  const config = await load(t, {})
  const keys: SettingKey[] = SETTINGS.map((row) => row.key)
  t.strictSame(
    config.all().map((one) => one.key),
    keys,
  )
  for (const row of SETTINGS) {
    t.match(variableOf(row.key), /^TAI_[A-Z_]+$/)
    t.notMatch(row.help, /[.\n]$/)
    if (row.standard !== '') t.equal(parseSetting(row.key, `${row.standard}`), `${row.standard}`)
  }
})

t.test('values are read by type', async (t) => {
  const config = await load(t, {
    env: { TAI_STREAM_IDLE: '120', TAI_MODEL: '' },
    home: 'tools = ["read_file", "grep"]\nweb_private = true\nmodel = "openai/x"\nmax_cost = 0.5',
  })
  t.equal(config.number('stream_idle'), 120)
  t.equal(config.get('model'), 'openai/x', 'an empty variable counts as unset')
  t.strictSame(config.list('tools'), ['read_file', 'grep'])
  t.equal(config.get('web_private'), 'true')
  t.equal(config.number('max_cost'), 0.5)
  t.equal(config.get('system'), undefined)
  t.equal(config.number('context_window'), Infinity, 'no limit was given')
  t.strictSame((await load(t, { flags: { tools: '' } })).list('tools'), [])
})

t.test('a project file may tighten, never widen', async (t) => {
  const cases: [string, SettingKey, Places, string | undefined, number][] = [
    ['permission_mode = "read-only"', 'permission_mode', {}, 'read-only', 0],
    ['permission_mode = "allow"', 'permission_mode', {}, 'prompt', 1],
    [
      'permission_mode = "danger-full-access"',
      'permission_mode',
      { home: 'permission_mode = "allow"' },
      'allow',
      1,
    ],
    [
      'permission_mode = "prompt"',
      'permission_mode',
      { stored: { permission_mode: 'read-only' } },
      'read-only',
      1,
    ],
    [
      'permission_mode = "prompt"',
      'permission_mode',
      { home: 'permission_mode = "allow"' },
      'prompt',
      0,
    ],
    ['max_steps = 51', 'max_steps', {}, '50', 1],
    ['max_steps = 5', 'max_steps', {}, '5', 0],
    ['result_max = 65537', 'result_max', {}, '65536', 1],
    ['max_cost = 9', 'max_cost', {}, '9', 0],
    ['max_cost = 9', 'max_cost', { home: 'max_cost = 1' }, '1', 1],
    ['web_private = true', 'web_private', {}, 'false', 1],
    ['tools = ["grep"]', 'tools', {}, 'grep', 0],
    ['tools = ["grep"]', 'tools', { home: 'tools = ["glob", "grep"]' }, 'grep', 0],
    ['tools = ["grep", "shell_exec"]', 'tools', { home: 'tools = ["grep"]' }, 'grep', 1],
    ['tools = ["grep"]', 'tools', { home: 'tools = []' }, '', 1],
    ['stream_idle = 91', 'stream_idle', {}, '90', 1],
    ['stream_idle = 5', 'stream_idle', {}, '5', 0],
    ['stdin_wait = 11', 'stdin_wait', {}, '10', 1],
    ['web_private = false', 'web_private', { home: 'web_private = true' }, 'true', 1],
    ['profile = "wild"', 'profile', {}, 'default', 1],
    ['model = "openai/x"', 'model', {}, 'openai/x', 0],
    ['[providers.openai]\nbase_url = "https://thief.example"', 'model', {}, undefined, 1],
    [
      'permission_mode = "allow"',
      'permission_mode',
      { flags: { permission_mode: 'allow' } },
      'allow',
      1,
    ],
  ]
  for (const [project, key, places, value, notices] of cases) {
    const config = await load(t, { ...places, project })
    t.equal(config.get(key), value, project)
    t.equal(config.notices.length, notices, `${project}: ${config.notices}`)
    if (notices > 0)
      t.match(config.notices[0], /project\/.tai\/config.toml: .* is left out: a project/)
    t.strictSame(config.providers(), {})
  }
})

t.test('where MCP is served is for the person to say, never for a project', async (t) => {
  const config = await load(t, { env: { TAI_MCP_PORT: '9000' }, home: 'mcp_hosts = ["a", "b:1"]' })
  t.equal(config.number('mcp_port'), 9000)
  t.equal(config.get('mcp_bind'), '127.0.0.1')
  t.strictSame(config.list('mcp_hosts'), ['a', 'b:1'])
  const flags = { mcp_port: '0', mcp_bind: '::1', mcp_hosts: 'c, d' }
  const given = await load(t, { flags, env: { TAI_MCP_PORT: '9000', TAI_MCP_BIND: '0.0.0.0' } })
  t.equal(given.number('mcp_port'), 0)
  t.equal(given.get('mcp_bind'), '::1')
  t.strictSame(given.list('mcp_hosts'), ['c', 'd'])
  t.equal((await load(t, {})).number('mcp_port'), 8765)
  const project = 'mcp_port = 1\nmcp_bind = "0.0.0.0"\nmcp_hosts = ["evil.example"]'
  const own = await load(t, { project })
  t.strictSame(
    [own.get('mcp_port'), own.get('mcp_bind'), own.list('mcp_hosts')],
    ['8765', '127.0.0.1', []],
  )
  t.equal(own.notices.length, 3)
  for (const port of ['65536', '-1', '80.5', 'http', '1e3', '0x50', '99999'])
    await t.rejects(load(t, { flags: { mcp_port: port } }), {
      message: /flag --mcp-port: mcp_port is ".*", not a port from 0 to 65535/,
      exitCode: 2,
    })
  for (const port of ['0', '1', '8765', '65535', '60000', '59999'])
    t.equal(parseSetting('mcp_port', port), port)
})

t.test('tables of providers come from the home file', async (t) => {
  const home = '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\nsince = 2026-01-01'
  const config = await load(t, { home })
  t.equal(config.providers()['mine']?.['base_url'], 'http://127.0.0.1:1/v1')
  t.strictSame(config.notices, [])
  t.strictSame((await load(t, {})).providers(), {})
  await t.rejects(load(t, { home: 'providers = 3' }), {
    message: /providers is 3, not a set of ta/,
  })
})

t.test('the home folder used as a project is not a project', async (t) => {
  const at = fs.realpathSync(t.testdir({ '.tai': { 'config.toml': 'permission_mode = "allow"' } }))
  const world = { ...worldAt(at), home: path.join(at, '.tai') }
  t.equal(configPaths(world, at).project, undefined)
  t.equal(configPaths(world, '/elsewhere').project, '/elsewhere/.tai/config.toml')
  const config = await Config.load(world, { flags: {}, stored: {}, root: at })
  t.equal(config.get('permission_mode'), 'allow')
  t.strictSame(config.notices, [])
})

t.test('what is wrong is told with its place and its remedy', async (t) => {
  const cases: [Places, RegExp][] = [
    [
      { home: 'model = "a"\nmax_steps = [1, 2\nx = 3' },
      /home\/config.toml: line 3, column 1: Invalid TOML document: expected comma or end of structure$/,
    ],
    [
      { project: 'model = ' },
      /project\/.tai\/config.toml: line 1, column \d+: Invalid TOML document: invalid value$/,
    ],
    [
      { home: 'max_steps = "five"' },
      /home\/config.toml: max_steps is "five", not a whole number from 1/,
    ],
    [{ home: 'max_steps = 2.5' }, /max_steps is 2.5, not a whole number from 1/],
    [{ home: 'web_private = "yes"' }, /web_private is "yes", not a boolean/],
    [{ home: 'tools = {}' }, /tools is {}, not a list/],
    [{ home: 'model = {}' }, /model is {}, not a text/],
    [{ home: 'model = ""' }, /model is "", not a text/],
    [{ home: 'result_max = 0' }, /result_max is 0, not a whole number from 1/],
    [{ home: 'permission_mode = "ask"' }, /permission_mode is "ask", not a mode$/],
    [{ env: { TAI_MAX_STEPS: '0' } }, /TAI_MAX_STEPS: max_steps is "0", not a whole number from 1/],
    [{ env: { TAI_STREAM_IDLE: '1\u001b[2J' } }, /TAI_STREAM_IDLE: stream_idle is "1\\u001b\[2J"/],
    [{ flags: { max_cost: '-1' } }, /flag --max-cost: max_cost is "-1", not a number from 0/],
    [{ env: { TAI_STREAM_IDLE: '100000' } }, /not a whole number from 1 to 99999/],
    [{ home: 'stdin_wait = 2147484' }, /stdin_wait is 2147484, not a whole number from 1 to 99999/],
    [{ stored: { max_steps: 'x' } }, /tai config set: max_steps is "x"/],
  ]
  for (const [places, message] of cases) {
    await t.rejects(load(t, places), { name: 'UsageError', message, hint: /./, exitCode: 2 })
  }
})

t.test('an unknown key is named', async (t) => {
  const config = await load(t, {
    home: 'modell = "x"\n[zzzzzzzz]\na = 1',
    stored: { old_thing: '1' },
  })
  t.match(config.notices[1], /home\/config.toml: there is no setting modell$/)
  t.match(config.notices[0], /old_thing$/)
  t.match(config.notices[2], /home\/config.toml: there is no setting zzzzzzzz$/)
  t.equal(config.notices.length, 3)
})

t.test('only a plain UTF-8 file is read', async (t) => {
  const at = fs.realpathSync(t.testdir({ project: { '.tai': { 'config.toml': {} } }, home: {} }))
  const read = () =>
    Config.load(worldAt(at), { flags: {}, stored: {}, root: path.join(at, 'project') })
  await t.rejects(read(), { message: /cannot read .*config.toml: it is not a file/ })
  fs.rmdirSync(path.join(at, 'project/.tai/config.toml'))
  fs.writeFileSync(path.join(at, 'home/config.toml'), Buffer.from('model = "\xff"', 'latin1'))
  await t.rejects(read(), { message: /cannot read .*config.toml/ })
  fs.writeFileSync(path.join(at, 'home/config.toml'), '\ufeffmodel = "a"\r\n')
  t.equal((await read()).get('model'), 'a', 'a byte order mark is no trouble')
})

t.test('parseSetting makes the text that `tai config set` keeps', async (t) => {
  t.equal(parseSetting('web_private', 'true'), 'true')
  t.equal(parseSetting('max_steps', ' 7\n'), '7')
  t.throws(() => new Config().explain('max_stepz'), {
    message: /max_stepz/,
    hint: /tai config list/,
  })
  const wrong: [string, string, RegExp][] = [
    ['max-steps', '1', /there is no setting max-steps\n {2}`tai config list` shows them/],
    ['__proto__', '1', /there is no setting __proto__\n/],
    [
      'permission_mode',
      'yolo',
      /tai config set: permission_mode is "yolo", not a mode\n {2}what may run without asking: read-only, /,
    ],
  ]
  for (const [key, text, message] of wrong) {
    let error: unknown
    try {
      parseSetting(key, text)
    } catch (caught) {
      error = caught
    }
    t.match(explain(error), message)
  }
})
