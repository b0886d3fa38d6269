// A person at a terminal: the chat, its interruptions, and the questions that tai asks while its
// standard input is a pipe. Cases f03 5, f07 and f09 3, on a real pseudo-terminal.
/* oxlint-disable no-control-regex -- what terminals obey is looked for */
import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeChat, type FakeTurn } from './data/fake-chat.mjs'
import { binary } from './fakes/binary.ts'
import { groupIsGone } from './fakes/groups.ts'
import { ptyAvailable, runInPty, type PtyStep } from './fakes/pty.ts'
import { ended, folder, tai } from './fakes/tai.ts'

const skip = ptyAvailable ? false : 'no pseudo-terminals here'
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
const AFTER = '; echo "code $?"; stty -a' // the exit code, and how the terminal was left
const GIVEN_BACK = /code (\d+)[\s\S]* icanon[\s\S]* echo /
const PROMPT = /> /

/** A strict model server and a terminal in a fresh workspace. */
async function scene(t: Test, ...turns: FakeTurn[]) {
  const fake = await startFakeChat({ fault: 'strict' })
  t.teardown(() => fake.close())
  fake.queue(...turns)
  const home = folder()
  const env = {
    HOME: home,
    TAI_HOME: join(home, '.tai'),
    TAI: await binary(), // what the command lines below call it
    TAI_MODEL: 'openai/m',
    OPENAI_BASE_URL: `${fake.url}/v1`,
    OPENAI_API_KEY: 'test-key',
    NO_COLOR: '1',
  }
  const pty = (command: string, steps: readonly PtyStep[], more: Record<string, string> = {}) =>
    runInPty(`trap : INT; export SCREEN=$(tty); ${command}`, steps, {
      cwd: home,
      env: { ...env, ...more },
      timeout: 15_000,
    })
  const sent = (n: number): Said[] => fake.requests().at(n)?.body.messages
  return { fake, home, env, pty, sent }
}

type Said = { role: string; content: string; tool_calls?: { id: string }[] }

/** Cursor hidden and not shown again, or the other screen not left. */
const LEFT_ODD = /\u001b\[\?(25l|1049h|2004h|1000h)(?![\s\S]*\u001b\[\?(25h|1049l|2004l|1000l))/

// The command tells its group, then the terminal: the cue that it runs.
const SLEEP = {
  name: 'shell_exec',
  args: { command: 'echo $$ > group; echo it sleeps > "$SCREEN"; sleep 30; echo slept' },
}
const QUICK = { name: 'time_now', args: { tz: 'UTC' } }

t.test('the chat: hint, commands, a wrong one, a new session, and leaving', { skip }, async (t) => {
  const { pty, fake, sent } = await scene(
    t,
    { text: 'First.' },
    { text: 'Second.' },
    { text: 'Third.' },
  )
  const { output } = await pty(`"$TAI"${AFTER}`, [
    { wait: /\/help[\s\S]*> /, type: '/help\r' },
    { wait: /\/new [\s\S]*\/exit [\s\S]*> /, type: '/modle\r' },
    { wait: /there is no \/modle; \/help lists[\s\S]*> /, type: '/frobnicate now\r' },
    { wait: /there is no \/frobnicate; \/help lists[\s\S]*> /, type: '/session\r' },
    { wait: /session \w+, openai\/m[\s\S]*> /, type: '   \r' },
    { wait: PROMPT, type: 'one\r' },
    { wait: /First\.[\s\S]*> /, type: 'two\r' },
    { wait: /Second\.[\s\S]*> /, type: '/new\r' },
    { wait: /session \w+[\s\S]*> /, type: 'three\r' },
    { wait: /Third\.[\s\S]*> /, type: '/exit\r' },
  ])
  t.match(output, GIVEN_BACK)
  t.match(output, /code 0/)
  t.notMatch(output, LEFT_ODD)
  const words = (n: number) =>
    sent(n)
      .filter((it) => it.role !== 'system')
      .map((it) => it.content)
  t.equal(fake.requests().length, 3, 'a command is never sent to a model')
  t.strictSame(words(1), ['one', 'First.', 'two'])
  t.strictSame(words(2), ['three'], 'a new session knows nothing of the old')
})

t.test(
  'Ctrl-C clears a line that was begun and leaves at an empty one; Ctrl-D leaves',
  { skip },
  async (t) => {
    const { pty, fake } = await scene(t)
    for (const [steps, code] of [
      [
        [
          { wait: PROMPT, type: 'half a thou' },
          { wait: /thou/, type: CTRL_C },
          { wait: PROMPT, type: CTRL_C },
        ],
        0,
      ],
      [[{ wait: PROMPT, type: CTRL_D }], 0],
    ] as [PtyStep[], number][])
      t.equal(GIVEN_BACK.exec((await pty(`"$TAI"${AFTER}`, steps)).output)?.[1], String(code))
    t.equal(fake.requests().length, 0)
  },
)

t.test(
  'f03 5: a terminal without arguments is told what to do, with and without a model',
  { skip },
  async (t) => {
    const { env, pty, home } = await scene(t)
    const file = env.TAI
    const child = spawn('script', ['-qec', file, '/dev/null'], {
      cwd: home,
      env: { ...env, TERM: 'xterm', PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [hint] = await once(child.stdout, 'data')
    t.match(String(hint), /\/help lists commands, Ctrl-D leaves/)
    child.kill('SIGTERM')
    await once(child, 'close')
    const none = await pty(`"$TAI"; echo "code $?"`, [], {
      OPENAI_BASE_URL: '',
      OPENAI_API_KEY: '',
      TAI_MODEL: '',
    })
    t.match(none.output, /no model is set up[\s\S]*OPENAI_API_KEY[\s\S]*code 3/)
    const redirected = await pty(`"$TAI" > out.txt; echo "code $?"; od -c out.txt | head -1`, [
      { wait: /./, type: CTRL_D },
    ])
    t.match(
      redirected.output,
      /code 2[\s\S]*0000000\s*$/,
      'no chat where the answer goes to a file',
    )
  },
)

t.test(
  'f07 A: Ctrl-C during a call returns to the prompt, and the next message is accepted',
  { skip },
  async (t) => {
    const { pty, sent, home } = await scene(t, { tools: [QUICK, SLEEP] })
    const { output } = await pty(`"$TAI" --auto${AFTER}`, [
      { wait: PROMPT, type: 'do it\r' },
      { wait: /it sleeps\r/, type: CTRL_C },
      { wait: /interrupted[\s\S]*> /, type: 'go on\r' },
      { wait: /42[\s\S]*> /, type: CTRL_D },
    ])
    t.match(output, GIVEN_BACK)
    t.match(output, /code 0/)
    t.notMatch(output, LEFT_ODD)
    const replies = sent(1)
      .filter((it) => it.role === 'tool')
      .map((it) => it.content)
    t.match(replies, [/\d{4}-\d\d-\d\d/, /interrupted/])
    t.equal(sent(1).at(-1)?.content, 'go on')
    t.ok(await groupIsGone(Number(readFileSync(join(home, 'group'), 'utf8'))))
  },
)

t.test('f07 B: Ctrl-C at a one-shot exits 130, and the session goes on', { skip }, async (t) => {
  const { pty, env, home, fake, sent } = await scene(t, { tools: [QUICK, SLEEP] })
  const { output } = await pty(`"$TAI" --auto 'do it'${AFTER}`, [
    { wait: /it sleeps\r/, type: CTRL_C },
  ])
  t.match(output, GIVEN_BACK)
  t.match(output, /code 130/)
  t.notMatch(output, LEFT_ODD)
  t.match(await tai(['-c', 'go on'], { env, home }), { code: 0, out: /42/, err: '' })
  t.match(
    sent(-1)
      .filter((it) => it.role === 'tool')
      .map((it) => it.content),
    [/\d{4}-\d\d-\d\d/, /interrupted/],
  )
  t.equal(fake.requests().length, 2)
})

/** Two signals of a kind that come before a program has woken up are one: a person is slower than that. */
const apart = () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 150)
const STUBBORN = {
  name: 'shell_exec',
  args: {
    command: `trap '' TERM INT HUP; echo $$ > group; echo it sleeps > "$SCREEN"; while :; do sleep 1; done`,
  },
}

t.test(
  'f07 D: a second Ctrl-C leaves at once, in a one-shot and in the chat',
  { skip },
  async (t) => {
    for (const [command, first] of [
      [`"$TAI" --auto go`, []],
      [`"$TAI" --auto`, [{ wait: PROMPT, type: 'go\r' }]],
    ] as [string, PtyStep[]][]) {
      const { pty, home } = await scene(t, { tools: [STUBBORN] })
      const times: number[] = []
      const { output } = await pty(`${command}${AFTER}`, [
        ...first,
        { wait: /it sleeps\r/, type: CTRL_C },
        {
          wait: /\^C/,
          get type() {
            return (apart(), times.push(performance.now()), CTRL_C)
          },
        },
        {
          wait: /code 130/,
          get type() {
            return (times.push(performance.now()), '')
          },
        },
      ])
      const [pressed = 0, over = Infinity] = times
      t.ok(over - pressed < 1_500, `${command}: it took ${Math.round(over - pressed)} ms`)
      t.match(output, GIVEN_BACK)
      t.ok(await groupIsGone(Number(readFileSync(join(home, 'group'), 'utf8')), 4_000))
    }
  },
)

t.test('f07 E: Ctrl-C while text streams keeps what came, marked', { skip }, async (t) => {
  const { pty, sent } = await scene(t, {
    text: 'Once upon a time.\n\nThere was a dog.\n\nIt barked.\n\nThen it was silent.\n\n'.repeat(
      3,
    ),
    fault: 'stall',
  })
  const { output } = await pty(`"$TAI"${AFTER}`, [
    { wait: PROMPT, type: 'tell me\r' },
    { wait: /Once upon/, type: CTRL_C },
    { wait: /interrupted[\s\S]*> /, type: 'go on\r' },
    { wait: /42[\s\S]*> /, type: CTRL_D },
  ])
  t.match(output, GIVEN_BACK)
  t.match(output, /code 0/)
  const [, said] = sent(1).filter((it) => it.role !== 'system')
  t.equal(said?.role, 'assistant')
  t.match(said?.content, /^Once upon[\s\S]*interrupted/)
})

t.test(
  'f09 3: with data piped in, the question and its answer use the terminal',
  { skip },
  async (t) => {
    const command = `touch deleted_all # \u001b]0;owned\u0007\u001b[2J\u009b31m\u202e`
    for (const [answer, made] of [
      ['y', true],
      ['n', false],
      ['', false],
      [CTRL_C, false],
      [CTRL_D, false],
    ] as const) {
      const { pty, home, sent, fake } = await scene(
        t,
        { tools: [{ name: 'shell_exec', args: { command } }] },
        { text: 'The end.' },
      )
      const { output } = await pty(`printf 'y\\ny\\nyes\\n' | "$TAI" 'do it'${AFTER}`, [
        {
          wait: /Allow \w+ \([0-9a-f]+\)\?[\s\S]*\[y[^\]]*\] /,
          type: answer === '' || answer > ' ' ? `${answer}\r` : answer,
        },
        ...(answer === ''
          ? ['\r', '\r', '\r', 'n\r'].map(
              (type): PtyStep => ({ wait: /Please type one[^\n]*\] /, type }),
            )
          : []),
      ])
      const name = `answer ${JSON.stringify(answer)}`
      t.equal(existsSync(join(home, 'deleted_all')), made, name)
      t.match(output, GIVEN_BACK, name)
      t.match(output, answer === CTRL_C ? /code 130/ : /The end\.\s+code 0/, name)
      t.equal(sent(0).at(-1)?.content, 'y\ny\nyes\n\ndo it', 'what was piped in is for the model')
      t.match(output, /shell_exec \([0-9a-f]{12}\) wants to run/)
      t.match(output, /touch deleted_all/)
      t.notMatch(
        output,
        /\u001b\]|\u0007|\u001b\[2J|\u009b|\u202e/,
        'escape codes are made visible',
      )
      if (answer === 'n') t.match(sent(1).at(-1)?.content, /said no/)
      t.equal(fake.requests().length, answer === CTRL_C ? 1 : 2)
    }
  },
)

t.test('what was typed before the question is no answer to it', { skip }, async (t) => {
  const { pty, home } = await scene(
    t,
    {
      tools: [{ name: 'shell_exec', args: { command: 'touch deleted_all' } }],
      fault: 'slow-first',
    },
    { text: 'The end.' },
  )
  await pty(`echo begun; printf data | "$TAI" 'do it'`, [
    { wait: /begun/, type: 'y\ry\ry\r' }, // the model takes two seconds to ask for the call
    { wait: /Allow \w+ \([0-9a-f]+\)\?[\s\S]*\] /, type: 'n\r' },
  ])
  t.equal(existsSync(join(home, 'deleted_all')), false)
})

t.test('an approval for the session holds in the chat, and only for it', { skip }, async (t) => {
  const touch = (name: string) => ({
    tools: [{ name: 'write_file', args: { path: name, content: 'x' } }],
  })
  const { pty, home, fake } = await scene(t, touch('a.txt'), { text: 'One.' }, touch('a.txt'), {
    text: 'Two.',
  })
  await pty(`"$TAI"`, [
    { wait: PROMPT, type: 'write\r' },
    {
      wait: /write_file \([0-9a-f]{12}\) wants to run[\s\S]*Allow write_file [\s\S]*\] /,
      type: 's\r',
    },
    { wait: /One\.[\s\S]*> /, type: 'again\r' },
    { wait: /Two\.[\s\S]*> /, type: CTRL_D },
  ])
  t.equal(readFileSync(join(home, 'a.txt'), 'utf8'), 'x')
  fake.queue(touch('a.txt'), { text: 'Three.' })
  const other = await pty(`"$TAI" go`, [{ wait: /wants to run[\s\S]*\] /, type: 'n\r' }])
  t.match(other.output, /Three\./, 'another session asks again')
})

t.test(
  'what a model, a thought or a tool says never reaches the terminal as an order',
  { skip },
  async (t) => {
    const evil =
      '\u001b]0;owned\u0007\u001b[2J\u001b]52;c;cHduZWQ=\u0007\u001b[6n\u001bP+q\u001b\\\u009d0;x\u009c\u009b2J\u001b]8;;http://evil.example\u001b\\link\u001b]8;;\u001b\\'
    const tool = {
      name: 'shell_exec',
      args: { command: `printf '${evil.replaceAll('\u001b', '\\033')}'` },
    }
    const turns = (): FakeTurn[] => [
      { text: `aside ${evil}`, reasoning: `thought ${evil}`, tools: [tool] },
      {
        text: `answer ${evil}\n\n\`\`\`sh\n${evil}\n\`\`\`\n| a ${evil} |\n|--|\n| b |\n`,
        reasoning: evil,
      },
    ]
    const orders = /\u001b[\]PX^_\\]|\u0007|[\u0080-\u009f]|\u001b\[[0-9;]*[^0-9;mK]|owned\u0007/
    for (const flags of ['', '--raw', '-x', '-v', '--json', '--stream-json']) {
      const { pty } = await scene(t, ...turns())
      const { output } = await pty(`"$TAI" --auto ${flags} go`, [])
      t.match(output, flags === '-x' ? 'owned' : 'answer', flags)
      t.notMatch(output, orders, `one-shot ${flags}`)
    }
    const { pty } = await scene(t, ...turns())
    const chat = await pty(`"$TAI" --auto`, [
      { wait: PROMPT, type: 'go\r' },
      { wait: /answer[\s\S]*\u001b\[0J> /, type: '/session\r' },
      { wait: PROMPT, type: CTRL_D },
    ])
    const ours = /\u001b\[(\d*[GCJKAD]|\?2004[hl])/g // what the line editor of node:readline writes
    t.notMatch(chat.output.replaceAll(ours, ''), orders)
  },
)

t.test('a secret is typed without echo', { skip }, async (t) => {
  const { pty, env, home } = await scene(t)
  const { output } = await pty(`"$TAI" secret set OPENAI_API_KEY${AFTER}`, [
    { wait: /Value of OPENAI_API_KEY: /, type: 'hunter2-hunter2\r' },
  ])
  t.match(output, /stored +OPENAI_API_KEY/)
  t.notMatch(output, /hunter2/)
  t.match(output, GIVEN_BACK)
  const { OPENAI_API_KEY: _, ...bare } = env
  t.match(await tai(['hi'], { env: bare, home }), { code: 0, out: /42/ })
})

t.test('a terminal that is closed ends the chat and its children', { skip }, async (t) => {
  const { env, home } = await scene(t, { tools: [SLEEP] })
  const line = `export SCREEN=$(tty); exec "${env.TAI}" --auto`
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    cwd: home,
    env: { ...env, TERM: 'xterm', SHELL: '/bin/sh', PATH: process.env['PATH'] },
    stdio: 'pipe',
  })
  const done = ended(child)
  const cues: [RegExp, () => void][] = [
    [PROMPT, () => void child.stdin.write('go\r')],
    [/it sleeps\r/, () => void child.kill('SIGKILL')],
  ]
  let output = ''
  child.stdout.on('data', (piece: Buffer) => {
    output += piece
    if (cues[0]?.[0].test(output) === true) cues.shift()?.[1]()
  })
  t.match(await done, { signal: 'SIGKILL' })
  t.ok(await groupIsGone(Number(readFileSync(join(home, 'group'), 'utf8')), 6_000))
})
