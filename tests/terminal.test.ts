import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, createReadStream, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import {
  denyPrompter,
  fdKind,
  Output,
  spinnerOn,
  style,
  terminalText,
  terminalFilter,
  ttyPrompter,
  wantsColor,
} from '../tai.ts'
import { inParallel } from './fakes/parallel.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'

// The compiled program is kept, as most of the time here would go into starting it.
process.env['NODE_COMPILE_CACHE'] = join(import.meta.dirname, '../.tap/compile-cache')
const FAKE = new URL('./fakes/terminal.ts', import.meta.url).pathname
const command = (args: string) => `'${process.execPath}' '${FAKE}' ${args}`
const sh = (script: string) =>
  spawnSync('bash', ['-c', script], { encoding: 'utf8', timeout: 15_000 })
const needsPty = ptyAvailable ? { buffered: true } : { skip: 'no util-linux script here' }
t.jobs = 3 // most of these wait for a child

t.test('who decides about colours', async (t) => {
  const table: [Record<string, string>, boolean, boolean, boolean][] = [
    // environment, terminal, --no-color, coloured
    [{}, true, false, true],
    [{}, false, false, false],
    [{}, true, true, false],
    [{ NO_COLOR: '1' }, true, false, false],
    [{ NO_COLOR: '' }, true, false, true],
    [{ FORCE_COLOR: '1' }, false, false, true],
    [{ FORCE_COLOR: '0' }, true, false, false],
    [{ FORCE_COLOR: '1', NO_COLOR: '1' }, true, false, false],
    [{ FORCE_COLOR: '1' }, true, true, false],
    [{ CLICOLOR: '0' }, true, false, false],
    [{ CLICOLOR: '1' }, false, false, false],
    [{ TERM: 'dumb' }, true, false, false],
    [{ TERM: 'dumb', FORCE_COLOR: '1' }, true, false, true],
  ]
  for (const [env, isTerminal, noColor, expected] of table)
    t.equal(
      wantsColor(env, isTerminal, noColor),
      expected,
      JSON.stringify([env, isTerminal, noColor]),
    )
})

t.test('a style opens, ends, and leaves nothing behind', async (t) => {
  t.equal(style('x', 'bold', 'red'), '\u001b[1m\u001b[31mx\u001b[39m\u001b[22m')
  t.equal(style('x'), 'x')
})

const HOSTILE: readonly [name: string, input: string, shown: string][] = [
  ['colour', 'a\u001b[1;31mb\u001b[0mc', 'abc'],
  ['clipboard (OSC 52)', 'a\u001b]52;c;aGk=\u0007b', 'ab'],
  ['title ended by ST', 'a\u001b]0;t\u001b\\b', 'ab'],
  ['link (OSC 8)', '\u001b]8;;http://x\u001b\\text\u001b]8;;\u001b\\', 'text'],
  ['8-bit CSI', 'a\u009b6nb', 'ab'],
  ['8-bit OSC', 'a\u009d52;c;x\u009cb', 'ab'],
  ['device control', 'a\u001bPq#0\u001b\\b', 'ab'],
  ['APC, PM and SOS', 'a\u001b_G1\u001b\\b\u001b^x\u001b\\c\u001bXy\u001b\\d', 'abcd'],
  ['report request', 'a\u001b[6n\u001b[>cb', 'ab'],
  ['reset', 'a\u001bcb', 'ab'],
  ['character set', 'a\u001b(0b', 'ab'],
  ['bell, backspace, delete, null', 'a\u0007\b\u007f\u0000b', 'ab'],
  ['line ends', 'a\r\nb\rc\td\n', 'a\nb\nc\td\n'],
  ['direction', 'a\u202eb\u2066c\u2069', 'abc'],
  ['unfinished OSC', 'a\u001b]0;all of this\nstays', 'a0;all of this\nstays'],
  ['unfinished OSC at the end', 'a\u001b]0;stays', 'a0;stays'],
  ['OSC cut by another sequence', 'a\u001b]0;b\u001b[31mc', 'a0;bc'],
  ['endless parameters', `a\u001b[${'1'.repeat(70)}mb`, 'a111111mb'],
  ['lone escape at the end', 'a\u001b', 'a'],
  ['nested', '\u001b[\u001b[31m31mx', '31mx'],
  ['emoji and accents stay', 'é 日本 👩‍👩‍👧 e\u0301', 'é 日本 👩‍👩‍👧 e\u0301'],
]

t.test('no escape sequence of a model reaches the terminal', async (t) => {
  for (const [name, input, shown] of HOSTILE) t.equal(terminalText(input), shown, name)
})

t.test('nor one that is cut anywhere', async (t) => {
  for (const [name, input, shown] of HOSTILE)
    for (let at = 0; at <= input.length; at++) {
      const filter = terminalFilter()
      const out = filter.push(input.slice(0, at)) + filter.push(input.slice(at)) + filter.end()
      if (out !== shown) t.equal(out, shown, `${name} cut at ${at}`)
    }
  const filter = terminalFilter()
  const all = HOSTILE.map(([, input]) => `${input}\n`).join('')
  const out = [...all].map((char) => filter.push(char)).join('') + filter.end()
  t.equal(out, terminalText(all), 'one character at a time')
})

t.test('a sequence without an end is given up, not waited for', async (t) => {
  const filter = terminalFilter()
  const long = 'x'.repeat(5000)
  t.equal(filter.push(`\u001b]0;${long}`), `0;${long}`)
  const start = performance.now()
  terminalText('\u001b]\u009d\u001bP'.repeat(100_000))
  terminalFilter().push('\u009d'.repeat(200_000) + 'x'.repeat(5000))
  t.ok(performance.now() - start < 2000, 'in linear time')
})

t.test('what a file descriptor is', async (t) => {
  t.equal(sh(`${command('facts')} | cat`).stderr.includes('"isTerminal":false'), true)
  const file = openSync(FAKE, 'r')
  t.equal(fdKind(file), 'file')
  closeSync(file)
  t.equal(fdKind(file), 'closed')
  const device = openSync('/dev/null', 'r')
  t.equal(fdKind(device), 'device')
  closeSync(device)
  t.notOk(new Output(1, { env: { NO_COLOR: '1' } }).color)
})

t.test('every line arrives, however slow the reader', async (t) => {
  const { stdout, stderr } = sh(`${command('lines 20000')} | (sleep 0.3; md5sum)`)
  t.equal(stdout, sh(`for i in $(seq 0 19999); do echo "line $i"; done | md5sum`).stdout)
  t.match(stderr, 'closed false failure undefined')
})

t.test('a reader that leaves ends the output quietly, and says so to its feeder', async (t) => {
  const { stdout, stderr } = sh(`${command('lines 10000000')} | head -1`)
  t.equal(stdout, 'line 0\n')
  t.equal(stderr, 'closed true failure undefined\n')
})

t.test('a full disk is one clear sentence', { skip: process.platform !== 'linux' }, async (t) => {
  const { stderr } = sh(`${command('lines 3')} >/dev/full`)
  t.equal(stderr, 'closed false failure cannot write output: no space left on device\n')
})

t.test('a closed stderr or stdout is no crash', async (t) => {
  t.equal(sh(`${command('lines 3')} 2>&-`).stdout, 'line 0\nline 1\nline 2\n')
  t.match(sh(`${command('lines 3')} >&-`), { status: 0 })
})

t.test('a reader that never reads does not stop the program', async (t) => {
  const { stderr } = sh(`(${command('stuck')}; echo $? >&2) | sleep 0.4`)
  t.equal(stderr, 'alive, queued\n7\n')
})

t.test('a full pipe that does not block is waited for', needsPty, async (t) => {
  const fifo = join(t.testdir({}), 'fifo')
  spawnSync('mkfifo', [fifo])
  const fd = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK)
  t.throws(() => {
    for (;;) writeSync(fd, '.'.repeat(4096))
  })
  // by way of a shell and fd 3, as Node makes the standard outputs of its children blocking
  const child = spawn('bash', ['-c', `exec ${command('full')} >&3 3>&-`], {
    stdio: ['ignore', 'ignore', 'pipe', fd],
  })
  t.equal(String((await once(child.stderr!, 'data'))[0]), 'queued true\n')
  const reader = createReadStream(fifo)
  let seen = ''
  for await (const piece of reader) if ((seen += piece).includes('xxx')) break
  t.match(seen, /^\.{60000,}x/)
  closeSync(fd)
})

t.test('a flood on a terminal arrives whole', needsPty, async (t) => {
  const { output } = await runInPty(command('flood'))
  t.equal(output, `80\r\n${'0123456789abcde\r\n'.repeat(100_000)}end\r\n`)
})

t.test('a terminal is known, with its width and colours', needsPty, async (t) => {
  const { output } = await runInPty(command('facts'), [], { columns: 33 })
  t.match(output, '{"isTerminal":true,"color":true,"columns":33}')
  const dumb = await runInPty(command('facts'), [], { env: { TERM: 'dumb' } })
  t.match(dumb.output, '{"isTerminal":true,"color":false,"columns":80}')
})

t.test('questions on the controlling terminal', needsPty, async (t) => {
  const ready = { wait: /\[y\/s\/n\] /, type: '' }
  const table: [string, string, { wait: RegExp; type: string }[], string][] = [
    ['a key', 'choose', [{ ...ready, type: 'y\r' }], '"y"'],
    ['upper case, line feed', 'choose', [{ ...ready, type: 'S\n' }], '"s"'],
    ['the word of a label', 'choose', [{ ...ready, type: 'No\r' }], '"n"'],
    [
      'something else first',
      'choose',
      [
        { ...ready, type: 'what\r' },
        { ...ready, type: 'n\r' },
      ],
      '"n"',
    ],
    ['nonsense for ever', 'choose late', [{ ...ready, type: '\r' }], 'undefined'],
    ['Ctrl-C', 'choose', [{ ...ready, type: '\u0003' }], 'undefined'],
    ['Ctrl-D', 'choose', [{ ...ready, type: '\u0004' }], 'undefined'],
    ['no answer in time', 'choose late', [], 'undefined'],
    ['piped data is no answer', 'choose late', [], 'undefined'],
    ['an abort', 'abort', [], 'undefined'],
    [
      'two at once are asked in turn',
      'two',
      [
        { wait: /A\? /, type: '1\r' },
        { wait: /B\? /, type: '2\r' },
      ],
      '["1","2"]',
    ],
  ]
  await inParallel(table, 4, async ([name, task, steps, answer]) => {
    const piped = name.startsWith('piped') ? `printf 'y\\ny\\n' | ` : ''
    const { output } = await runInPty(piped + command(task), steps)
    t.match(output, `answer ${answer}`, name)
    if (name === 'Ctrl-C') t.match(output, 'interrupted', 'Ctrl-C is passed on')
  })
})

t.test('what is shown hides nothing; what was typed ahead is no answer', needsPty, async (t) => {
  const steps = [
    { wait: /not yet/, type: 'y\ry\r' },
    { wait: /\[y\/s\/n\] /, type: 'n\r' },
  ]
  const { output } = await runInPty(command('choose ahead'), steps)
  t.match(output, 'answer "n"')
  t.match(output, 'Run \\e[31mrm\\u{202e}?')
})

t.test('a secret is not echoed, and the terminal is given back', needsPty, async (t) => {
  const steps = [{ wait: /Passphrase: /, type: 'hunter22\r' }]
  const { output } = await runInPty(`${command('secret')}; stty -a`, steps)
  t.match(output, 'answer "hunter22"')
  t.equal(output.split('hunter22').length, 2, 'only in the answer')
  t.match(output, / echo /)
  t.match(output, / icanon /)
})

t.test('a kill in the middle of a question gives the terminal back', needsPty, async (t) => {
  await inParallel(['TERM', 'INT'], 2, async (signal) => {
    const raw = 'until stty -a </dev/tty | grep -q -e -icanon; do sleep 0.05; done'
    const inner = `(${raw}; kill -${signal} $$) & exec ${command('secret')} </dev/null >/dev/null 2>&1`
    const { output } = await runInPty(`bash -c "$INNER"; stty -a`, [], { env: { INNER: inner } })
    t.match(output, / icanon [^]* echo /, signal)
  })
})

t.test('with no terminal nobody is asked', async (t) => {
  const { stderr } = sh(`setsid ${command('available')} </dev/null 2>&1 >/dev/null | cat >&2`)
  t.equal(stderr, 'answer false\n')

  t.equal(await ttyPrompter().ask('?', {}, AbortSignal.abort()), undefined)
  t.notOk(denyPrompter.available)
  t.equal(await denyPrompter.ask('?', {}, new AbortController().signal), undefined)
})

t.test('nothing turns beside a question, and it goes on after it', needsPty, async (t) => {
  const { output } = await runInPty(command('hold'))
  const [before = '', after = ''] = output.split('Name?').slice(-2)
  t.match(before, '⠋ first')
  const [asking, ...end] = after.split('⠋ first')
  t.notMatch(asking, /[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/)
  t.equal(end.length, 1)
})

t.test('the spinner leaves no trace, and is never in a pipe', needsPty, async (t) => {
  t.ok(spinnerOn)
  const { output } = await runInPty(command('spin'))
  t.match(output, '⠋ thinking\\u{1b}'.replace('\\u{1b}', '\\e[2J'))
  t.match(output, `\r\u001b[Ktext\r\n`)
  t.notMatch(output, 'middle')
  t.equal(sh(`${command('spin')} 2>&1 | cat`).stdout, `text\ndone ${style('x', 'dim')}\n`)
})
