import t from 'tap'
import { spawnSync } from 'node:child_process'
import {
  completeLine,
  COMPLETIONS,
  FLAGS,
  Given,
  helpText,
  parseLine,
  UsageError,
  type Command,
} from '../tai.ts'

const run = async () => 0
const commands: Command<null>[] = [
  {
    name: 'secret',
    help: 'keys',
    verbs: [
      { name: 'set', args: 'NAME', help: 'store one', flags: [], run },
      {
        name: 'list',
        args: '',
        help: 'names',
        flags: [
          { usage: '--limit N', name: 'limit', type: 'string', multiple: true, help: 'how many' },
        ],
        run,
      },
    ],
  },
  {
    name: 'help',
    help: 'help',
    verbs: [{ name: '', args: '[COMMAND]', help: 'of a command', flags: [], run }],
  },
]

t.test('a first word that is a command starts it, anything else is a prompt', async (t) => {
  const cases: [string[], string][] = [
    [['what', 'is', 'this'], 'turn: what is this'],
    [['secret', 'list'], 'secret list: '],
    [['secret', 'set', 'A'], 'secret set: A'],
    [['--json', 'secret', 'list'], 'secret list: '],
    [['--root', 'secret', 'hello'], 'turn: hello'],
    [['-m', 'openai/x', 'secret of life'], 'turn: secret of life'],
    [['secret list'], 'turn: secret list'],
    [['--', 'secret', 'list'], 'turn: secret list'],
    [['--', 'mcp', 'explained'], 'turn: mcp explained'],
    [['--', '--looks-like-a-flag'], 'turn: --looks-like-a-flag'],
    [['-'], 'turn: -'],
    [['help'], 'help : '],
    [['help', 'secret'], 'help : secret'],
    [['--help'], 'help'],
    [['secret', '--help'], 'help secret'],
    [[], 'turn: '],
  ]
  for (const [argv, expected] of cases) t.equal(describe(argv), expected, argv.join(' '))
})

t.test('--serve-mcp takes its key or leaves it to the environment', async (t) => {
  const cases: [string[], string | undefined, string][] = [
    [['--serve-mcp', 'KEY'], 'KEY', 'turn: '],
    [['--serve-mcp=KEY'], 'KEY', 'turn: '],
    [['--serve-mcp'], '', 'turn: '],
    [['--serve-mcp', ''], '', 'turn: '],
    [['--serve-mcp', '--mcp-port', '0'], '', 'turn: '],
    [['--serve-mcp', '-q'], '', 'turn: '],
    [['--serve-mcp=-dashed', '-q'], '-dashed', 'turn: '],
    [['--serve-mcp', 'secret', '--mcp-port', '9000'], 'secret', 'turn: '],
    [['--serve-mcp', '--', 'hello'], '', 'turn: hello'],
    [['--serve-mcp', 'KEY', 'hello'], 'KEY', 'turn: hello'],
    [['--mcp-port', '9000', '--serve-mcp'], '', 'turn: '],
    [['--', '--serve-mcp'], undefined, 'turn: --serve-mcp'],
  ]
  for (const [argv, key, expected] of cases) {
    t.equal(parseLine(argv, commands).given.text('serve-mcp'), key, argv.join(' '))
    t.equal(describe(argv), expected, argv.join(' '))
  }
  const given = ['--serve-mcp', '--mcp-port', '9', '--mcp-bind', '::1', '--mcp-hosts', 'a,b']
  const line = parseLine(given, commands)
  t.strictSame(
    ['mcp-port', 'mcp-bind', 'mcp-hosts'].map((name) => line.given.text(name)),
    ['9', '::1', 'a,b'],
  )
  const error = thrown(() => parseLine(['--serve-mcp', 'k', '--mcp-prot', '9'], commands))
  t.match(error?.message, /unknown flag --mcp-prot/)
})

function describe(argv: string[]): string {
  const line = parseLine(argv, commands)
  const name = line.command?.name ?? ''
  if (line.given.has('help')) return `help ${name}`.trim()
  const words = line.words.join(' ')
  return line.verb ? `${name} ${line.verb.name}: ${words}` : `turn: ${words}`
}

t.test('what is wrong with a command line is said, with what to do', async (t) => {
  const cases: [string[], RegExp, RegExp][] = [
    [['--modle', 'x', 'hi'], /unknown flag --modle/, /tai --help/],
    [['--frobnicate'], /unknown flag --frobnicate/, /tai --help/],
    [['-Z', 'hi'], /unknown flag -Z/, /./],
    [['--model'], /--model .*missing/, /tai --help/],
    [['--json=yes'], /--json does not take/, /tai --help/],
    [['secret'], /tai secret needs a verb: set, list/, /quotes/],
    [['secret', 'lst'], /tai secret has no verb lst: set, list/, /quotes/],
    [['secret', 'of', 'life'], /tai secret has no verb of/, /after -- or in quotes/],
    [['secret', 'set'], /usage: tai secret set NAME/, /tai secret --help/],
    [['secret', 'set', 'A', 'hunter2'], /usage: tai secret set NAME/, /./],
    [['secret', 'set', 'A', '--limit', '3'], /unknown flag --limit/, /./],
    [['ui', 'add', '--yes', 'x'], /this version has no command ui/, /after --/],
    [['secret', 'list', '--schema', 'x'], /unknown flag --schema/, /./],
  ]
  for (const [argv, message, hint] of cases) {
    const error = thrown(() => parseLine(argv, commands))
    t.match(error?.message, message, argv.join(' '))
    t.match(error?.hint, hint, argv.join(' '))
    t.equal(error?.exitCode, 2)
  }
})

function thrown(work: () => unknown): UsageError | undefined {
  try {
    work()
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
  return undefined
}

t.test('flags of a turn: the last one wins, repeatable ones add up', async (t) => {
  const line = parseLine(['-m', 'a', '-m', 'b', '-f', 'x', '--file=y', '-qv', 'hi'], commands)
  t.equal(line.verb, undefined)
  t.equal(line.given.text('model'), 'b')
  t.strictSame(line.given.all('file'), ['x', 'y'])
  t.strictSame(
    [line.given.has('quiet'), line.given.has('verbose'), line.given.has('json')],
    [true, true, false],
  )
  t.strictSame([...line.given.keys()], ['model', 'file', 'quiet', 'verbose'])
  t.equal(new Given(new Map()).text('model'), undefined)
})

t.test('--help names every flag, every command and every exit code', async (t) => {
  const text = helpText(commands)
  for (const flag of FLAGS) t.match(text, `--${flag.name}`, flag.name)
  for (const command of commands) t.match(text, command.help)
  for (const code of [0, 1, 2, 3, 4, 5, 6, 130]) t.match(text, new RegExp(`^  ${code} +\\S`, 'm'))
  t.match(helpText(commands, commands[0]), /tai secret set NAME +store one/)
  t.match(helpText(commands, commands[0]), /--limit N/)
})

t.test('a line of the shell is completed', async (t) => {
  const cases: [string, string[]][] = [
    ['tai ', ['secret', 'help']],
    ['tai se', ['secret']],
    ['tai secret', ['secret']],
    ['tai secret ', ['set', 'list']],
    ['tai secret se', ['set']],
    ['tai secret set ', []],
    ['tai secret list --li', ['--limit']],
    ['tai help ', []],
    ['tai --mod', ['--model']],
    ['tai -m', ['-m']],
    ['tai hello se', []],
  ]
  for (const [line, words] of cases) t.strictSame(completeLine(line, commands), words, line)
})

t.test('completion scripts ask the program', async (t) => {
  for (const script of Object.values(COMPLETIONS)) t.match(script, 'tai completion line')
  const input = `${COMPLETIONS.bash}complete -p tai
tai() { echo "$COMP_LINE"; }
eval "$(complete -p tai | sed 's/^complete/compgen/; s/ tai$/ se/')" 2>&1 | tail -1`
  const shown = spawnSync('bash', [], { input, encoding: 'utf8', env: { COMP_LINE: 'tai se' } })
  t.match(shown, { status: 0, stdout: /^complete -o default -C .* tai\n/, stderr: '' })
})
