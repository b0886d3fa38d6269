// Files of other programs, in a made-up home; no path of this machine is looked at.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { hostedServers, type World } from '../tai.ts'
import { folder } from './fakes/tai.ts'

type Platform = NodeJS.Platform

const server = (name: string) => ({ [name]: { command: 'run', args: [name] } })
const holding = (key: string) => (name: string) => JSON.stringify({ [key]: server(name) })
const toml = (name: string) =>
  `model = "x"\n[mcp_servers.${name}]\ncommand = "run"\nargs = ["${name}"]\n`
const settings = (key: string) => (name: string) =>
  `// comments are fine\n{ "editor.fontSize": 12, "${key}": ${JSON.stringify(server(name))}, }`

// Host, files by what they hold. CONFIG and XDG are where a platform keeps settings.
const FILES: [string, string, (name: string) => string][] = [
  ['Claude Desktop', 'CONFIG/Claude/claude_desktop_config.json', holding('mcpServers')],
  ['Claude Code', 'HOME/.claude.json', holding('mcpServers')],
  ['Claude Code', 'ROOT/.mcp.json', holding('mcpServers')],
  ['Cursor', 'HOME/.cursor/mcp.json', holding('mcpServers')],
  ['Cursor', 'ROOT/.cursor/mcp.json', holding('mcpServers')],
  [
    'VS Code',
    'CONFIG/Code/User/settings.json',
    (name) => `{ "a": 1, "mcp": { "servers": ${JSON.stringify(server(name))} } }`,
  ],
  ['VS Code', 'CONFIG/Code/User/mcp.json', holding('servers')],
  ['VS Code', 'ROOT/.vscode/mcp.json', holding('servers')],
  ['Codex', 'HOME/.codex/config.toml', toml],
  ['Codex', 'ROOT/.codex/config.toml', toml],
  ['Windsurf', 'HOME/.codeium/windsurf/mcp_config.json', holding('mcpServers')],
  ['Zed', 'XDG/zed/settings.json', settings('context_servers')],
  ['Zed', 'ROOT/.zed/settings.json', settings('context_servers')],
  [
    'opencode',
    'XDG/opencode/opencode.json',
    (name) => JSON.stringify({ mcp: { [name]: { type: 'local', command: ['run', name] } } }),
  ],
  ['opencode', 'ROOT/opencode.json', holding('mcp')],
  ['Gemini CLI', 'HOME/.gemini/settings.json', settings('mcpServers')],
  ['Gemini CLI', 'ROOT/.gemini/settings.json', settings('mcpServers')],
  ['pi', 'HOME/.pi/agent/mcp.json', holding('mcpServers')],
  ['pi', 'ROOT/.pi/mcp.json', holding('mcpServers')],
]
const CONFIG: Partial<Record<Platform, string>> = {
  linux: 'HOME/.config',
  darwin: 'HOME/Library/Application Support',
  win32: 'HOME/AppData/Roaming',
}

/** A home and a project with these files. */
function placed(files: Record<string, string>, platform: Platform = 'linux', env = {}) {
  const [home, root] = [folder(), folder()]
  const at = (file: string) =>
    file
      .replace('CONFIG', CONFIG[platform] ?? '')
      .replace('XDG', 'HOME/.config')
      .replace('HOME', home)
      .replace('ROOT', root)
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(at(file)), { recursive: true })
    writeFileSync(at(file), text.replaceAll('ROOT', root))
  }
  const world: World = {
    env: { HOME: home, APPDATA: join(home, 'AppData/Roaming'), ...env },
    platform,
    cwd: root,
    home: join(home, '.tai'),
    pid: 1,
    now: () => 0,
    randomBytes: () => Buffer.alloc(0) as never,
  }
  return { at, home, root, hosted: () => hostedServers(world, root) }
}

for (const platform of ['linux', 'darwin', 'win32'] as const)
  t.test(`every host's servers are found on ${platform}`, async (t) => {
    const files = FILES.map(([, file, text], i) => [file, text(`s${i}`)])
    const { at, hosted, root } = placed(Object.fromEntries(files), platform)
    const { found, faults } = await hosted()
    t.strictSame(faults, [])
    t.strictSame(
      found.map(({ host, file, from, entry }) => [host, file, from, entry.name]),
      FILES.map(([host, file], i) => [
        host,
        at(file),
        file.endsWith('toml') ? 'config-toml' : 'config-json',
        `s${i}`,
      ]).toSorted(
        ([, a = ''], [, b = '']) => Number(a.startsWith(root)) - Number(b.startsWith(root)),
      ),
    )
    for (const { entry } of found)
      t.match(entry, { transport: 'stdio', command: 'run', args: [entry.name] })
    for (const [i, [, file, text]] of FILES.entries())
      t.equal(readFileSync(at(file), 'utf8'), text(`s${i}`), 'their files stay as they are')
  })

t.test('variables say where settings are kept', async (t) => {
  const away = folder()
  const cases: [Platform, string, string, string][] = [
    ['linux', 'XDG_CONFIG_HOME', 'zed/settings.json', 'Zed'],
    ['linux', 'XDG_CONFIG_HOME', 'Claude/claude_desktop_config.json', 'Claude Desktop'],
    ['win32', 'APPDATA', 'Claude/claude_desktop_config.json', 'Claude Desktop'],
    ['linux', 'CODEX_HOME', 'config.toml', 'Codex'],
  ]
  for (const [platform, variable, file, host] of cases) {
    const dir = join(away, platform, variable)
    const path = join(dir, file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, file.endsWith('toml') ? toml('s') : holding('mcpServers')('s'))
    const { found } = await placed({}, platform, { [variable]: dir }).hosted()
    t.match(
      found.map((each) => [each.host, each.file]),
      [[host, path]],
      variable,
    )
    writeFileSync(path, '')
  }
})

t.test('where there is no HOME, the folder of the Windows user is looked at', async (t) => {
  const { home, root } = placed({ 'HOME/.cursor/mcp.json': holding('mcpServers')('s') })
  const env = { USERPROFILE: home }
  const world = { env, platform: 'win32', cwd: root, home, pid: 1, now: () => 0 } as never
  t.match((await hostedServers(world, root)).found, [{ host: 'Cursor', entry: { name: 's' } }])
})

t.test("Claude Code's servers of this project come with those of all", async (t) => {
  const projects = {
    ROOT: { mcpServers: server('here') },
    '/other': { mcpServers: server('there') },
  }
  const text = JSON.stringify({
    mcpServers: server('all'),
    projects,
    userID: 'u',
    oauthAccount: {},
  })
  const { hosted } = placed({ 'HOME/.claude.json': text })
  const { found, faults } = await hosted()
  t.strictSame(
    found.map(({ entry }) => entry.name),
    ['all', 'here'],
  )
  t.strictSame(faults, [])
})

t.test('a file without servers is not worth a word', async (t) => {
  const { hosted } = placed({
    'HOME/.claude.json': '{"mcpServers": {}, "numStartups": 7}',
    'HOME/.codex/config.toml': 'model = "x"\n',
    'CONFIG/Code/User/settings.json': '{"editor.fontSize": 12}',
    'CONFIG/Code/User/mcp.json': '{"servers": {}, "inputs": []}',
    'HOME/.gemini/settings.json': '{"mcp": {"allowed": ["a"]}}',
    'HOME/.cursor/mcp.json': '',
  })
  t.strictSame(await hosted(), { found: [], faults: [] })
})

t.test('a broken file is named with what is wrong, and the others are read', async (t) => {
  const { at, hosted } = placed({
    'HOME/.cursor/mcp.json': '{"mcpServers": {"a": {"command": "x"',
    'HOME/.codex/config.toml': '[mcp_servers.a]\ncommand = \n',
    'HOME/.gemini/settings.json':
      '{"mcpServers": {"good": {"command": "x"}, "bad": {"args": ["x"]}}}',
    'HOME/.claude.json': `\ufeff${holding('mcpServers')('fine')}`,
  })
  const { found, faults } = await hosted()
  t.strictSame(
    found.map(({ entry }) => entry.name),
    ['fine', 'good'],
  )
  const told = faults.toSorted()
  t.equal(told.length, 3)
  t.match(told[0], `${at('HOME/.codex/config.toml')}: line 2, column 11`)
  t.match(told[1], new RegExp(`^${at('HOME/.cursor/mcp.json')}: no JSON at character \\d+`))
  t.match(told[2], new RegExp(`^${at('HOME/.gemini/settings.json')}: bad`))
})

t.test('what a file grants elsewhere is refused, and that is said', async (t) => {
  const entry = { command: 'run', autoApprove: ['x'] }
  const { hosted } = placed({ 'ROOT/.mcp.json': JSON.stringify({ mcpServers: { s: entry } }) })
  const { found } = await hosted()
  t.match(found, [{ entry: { name: 's', options: {} }, notes: [/autoApprove.*refused/] }])
})
