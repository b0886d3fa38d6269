// What the README tells a newcomer, held to the code.
import t from 'tap'
import { readFileSync } from 'node:fs'
import {
  COMMANDS,
  EXIT,
  FLAGS,
  MCP_DEFAULT_PORT,
  MODES,
  PROVIDERS,
  SETTINGS,
  helpText,
  variableOf,
} from '../tai.ts'

const file = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')
const readme = file('README.md')
const pack = JSON.parse(file('package.json'))

t.test('every flag, command, verb and variable it shows exists', async (t) => {
  const flags = new Set(
    [
      ...FLAGS,
      ...COMMANDS.flatMap(({ verbs }) => verbs.flatMap((verb) => verb.flags ?? [])),
    ].flatMap((flag) => [`--${flag.name}`, `-${flag.short}`]),
  )
  const known = new Set([...flags, '--target', '--all', '--staged', '-rn', '-hex'])
  for (const [, flag = ''] of readme.matchAll(/[\s`(](--?[a-z][a-z-]*)(?=[\s`=),])/g))
    if (!/^-[lr]$/.test(flag)) t.ok(known.has(flag), flag)
  for (const [, name = '', verb = ''] of readme.matchAll(/`?\btai ([a-z]+) ([a-z]+)/g)) {
    const command = COMMANDS.find((row) => row.name === name)
    if (command !== undefined)
      t.ok(
        command.verbs.some((row) => `${row.name} `.startsWith(`${verb} `) || row.name === ''),
        `tai ${name} ${verb}`,
      )
  }
  const variables = new Set([
    ...SETTINGS.map((row) => variableOf(row.key)),
    'TAI_HOME',
    'TAI_MCP_KEY',
    'TAI_SEAL_PASSPHRASE',
    ...PROVIDERS.flatMap((row) => [...row.keys, row.baseEnv ?? '']),
  ])
  for (const [name] of readme.matchAll(/\b(?:TAI|OPENAI|ANTHROPIC|GEMINI|OPENROUTER)_[A-Z_]+\b/g))
    t.ok(variables.has(name), name)
})

t.test('its tables are the tables of the code', async (t) => {
  const codes = [...readme.matchAll(/^\| (\d+) \| /gm)].map(([, code]) => Number(code))
  t.strictSame(codes, Object.values(EXIT))
  const modes = [...readme.matchAll(/^\| `([a-z][a-z-]+)`/gm)].map(([, mode]) => mode)
  t.strictSame(modes, [...MODES])
  const section = readme.slice(readme.indexOf('| library |'), readme.indexOf('Not bundled'))
  const libraries = [...section.matchAll(/^\| ([^|]+) \|/gm)]
    .flatMap(([, names = '']) => names.split(', '))
    .filter((name) => name !== 'library' && !name.startsWith('-'))
  t.strictSame(libraries.toSorted(), Object.keys(pack.dependencies).toSorted())
  for (const script of readme.matchAll(/npm (?:run )?([a-z]+)/g))
    if (!['test', 'start'].includes(script[1] ?? ''))
      t.ok(script[1] && script[1] in pack.scripts, script[0])
})

t.test(
  'what it gives to clients is what mcp.md gives, at the port where tai listens',
  async (t) => {
    const [, shown = ''] = /```json\n([^]*?)```/.exec(readme) ?? []
    t.match(file('mcp.md'), shown)
    t.match(shown, `"http://127.0.0.1:${MCP_DEFAULT_PORT}/mcp"`)
    t.match(readme, '](mcp.md)')
  },
)

t.test('every flag and default it tells of serving stands in the help too', async (t) => {
  const help = helpText(COMMANDS)
  for (const [flag] of readme.matchAll(/--(?:serve-mcp|mcp-[a-z]+|permission-mode|root)\b/g))
    t.match(help, `  ${flag} `)
  t.match(help, `(${MCP_DEFAULT_PORT})`)
  t.match(help, 'TAI_MCP_KEY')
})
