import t, { type Test } from 'tap'
import { ASK_TOOLS, type JsonObject, type ToolContext } from '../tai.ts'
import { filled, openContext, row } from './fakes/bench.ts'

const never = new AbortController().signal

type Wishes = {
  answers?: (string | undefined)[]
  files?: Record<string, string | Buffer>
  env?: Record<string, string>
}
type Opened = ToolContext & { asked: string[]; selected: unknown[] }

/** A context with a person who types the given answers. */
async function open(t: Test, { answers, ...more }: Wishes = {}): Promise<Opened> {
  const asked: string[] = []
  const selected: unknown[] = []
  const prompter = {
    available: answers !== undefined,
    choose: async () => undefined,
    ask: async (question: string) => {
      asked.push(question)
      return answers?.shift()
    },
  }
  const parameters = { type: 'object' }
  const offered = [{ name: 'git_log', description: 'Commits.', parameters }]
  return {
    ...(await openContext(t, { prompter, ...more })),
    select: (query) => {
      selected.push(query)
      return { offered: query.query === 'nothing' ? [] : offered, unknown: query.names ?? [] }
    },
    asked,
    selected,
  }
}

const use = (context: ToolContext, name: string, args: JsonObject = {}) =>
  row(name).run(filled(name, args), context, never)

t.test('the tools of this section', async (t) => {
  t.strictSame(
    ASK_TOOLS.map(({ name }) => name),
    ['ask_user', 'select_tools', 'agent_run', 'text_diff', 'time_now', 'system_info'],
  )
})

t.test('ask_user without anybody says so at once', async (t) => {
  const reply = await use(await open(t), 'ask_user', { question: 'Which?' })
  t.match(reply, { isError: true, text: /nobody can be asked/ })
})

t.test('ask_user takes numbers, and anything else as own words', async (t) => {
  const options = ['red', 'green\u001b[2J', 'blue']
  const cases: [JsonObject, (string | undefined)[], RegExp, number][] = [
    [{}, ['because'], /^the user answered: because$/, 1],
    [{ options }, ['3'], /answered: blue$/, 1],
    [{ options }, ['purple'], /answered: purple$/, 1],
    [{ options }, ['1,2'], /answered: 1,2$/, 1],
    [{ options, multi: true }, ['1, 3'], /answered: red; blue$/, 1],
    [{ options, multi: true }, ['3 3'], /answered: blue$/, 1],
    [{ options, multi: true }, ['1 9'], /answered: 1 9$/, 1],
    [{ options, multi: true }, ['0'], /answered: 0$/, 1],
    [{ options }, [undefined], /gave no answer/, 1],
    [{ options }, [' '], /gave no answer/, 1],
    [{}, ['2.5'], /answered: 2.5$/, 1],
  ]
  for (const [args, answers, text, asked] of cases) {
    const context = await open(t, { answers: [...answers] })
    const reply = await use(context, 'ask_user', { question: 'Which\u0007 one?', ...args })
    t.match(reply.text, text)
    t.equal(reply.isError === true, /no answer/.test(text.source))
    t.equal(context.asked.length, asked)
    t.match(
      context.asked[0],
      'the model asks:\n  | Which\\u{7} one?',
      'nothing in a question reaches the terminal raw',
    )
    t.notMatch(context.asked[0], '\u001b')
  }
  const posing = await open(t, { answers: ['y'] })
  await use(posing, 'ask_user', { question: 'ok\n\n\n\n\n\nAllow it?', options: ['y\nn'] })
  t.equal(
    posing.asked[0],
    'the model asks:\n  | ok\n  | (5 blank lines)\n  | Allow it?\n  |   1  y n',
    'no line of the model passes for one of tai',
  )
})

t.test('select_tools tells what it offers and what it does not know', async (t) => {
  const context = await open(t)
  const reply = await use(context, 'select_tools', { query: 'commits', names: ['no\u0007pe'] })
  t.equal(
    reply.text,
    'offered from the next step on:\n- git_log: Commits.\nthere is no tool no\\u{7}pe',
  )
  t.strictSame(context.selected, [{ query: 'commits', names: ['no\u0007pe'], limit: 10 }])
  t.match(await use(context, 'select_tools', { query: 'nothing' }), { text: 'no tool fits' })
})

t.test('text_diff compares texts and files', async (t) => {
  const files = {
    'a.txt': 'one\ntwo\nthree\n',
    'b.txt': 'one\n2\nthree\n',
    'no-end.txt': 'one\ntwo\nthree',
    bin: Buffer.from([1, 0, 2]),
    latin: Buffer.from([0xe9, 0x0a]),
    folder: '',
  }
  const context = await open(t, { files })
  const patch = '--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three'
  const cases: [JsonObject, string | RegExp][] = [
    [{ a: files['a.txt'], b: files['b.txt'] }, patch],
    [
      { path_a: 'a.txt', path_b: './b.txt' },
      patch.replace('a\n', 'a.txt\n').replace('b\n', 'b.txt\n'),
    ],
    [
      { path_a: 'a.txt', b: files['b.txt'], context: 0 },
      /^--- a.txt\n\+\+\+ b\n@@ -2,1 \+2,1 @@\n-two\n\+2$/,
    ],
    [{ path_a: 'a.txt', b: files['a.txt'] }, 'they are the same'],
    [{ a: '', b: '' }, 'they are the same'],
    [{ a: '', b: 'x\n' }, /@@ -0,0 \+1,1 @@\n\+x$/],
    [{ path_a: 'a.txt', path_b: 'no-end.txt' }, /-three\n\+three\n\\ No newline at end of file$/],
    [{ a: 'x\r\n', b: 'x\n' }, /-x\r\n\+x$/],
  ]
  for (const [args, text] of cases) {
    const reply = await use(context, 'text_diff', args)
    if (typeof text === 'string') t.equal(reply.text, text)
    else t.match(reply.text, text)
  }
  const wrong: [JsonObject, RegExp][] = [
    [{ a: 'x' }, /give either b as a text or a path/],
    [{ a: 'x', path_a: 'a.txt', b: 'y' }, /give either a as a text/],
    [{ path_a: 'latin', b: '' }, /latin is not UTF-8 on line 1/],
    [{ path_a: 'none', b: '' }, /nothing at none/],
    [{ path_a: '.', b: '' }, /\. is a folder, not a file/],
    [{ path_a: '../home/vault.db', b: '' }, /./],
    [{ path_a: '/etc/passwd', b: '' }, /./],
  ]
  for (const [args, message] of wrong)
    await t.rejects(use(context, 'text_diff', args), { message }, JSON.stringify(args))
})

/** Lines that no two seeds share. */
function noise(seed: number): string {
  let at = seed
  const line = () => String((at = (at * 48_271) % 2_147_483_647))
  return Array.from({ length: 40_000 }, line).join('\n')
}

t.test('text_diff gives up on texts that would take too long', { timeout: 20_000 }, async (t) => {
  const differ = await use(await open(t), 'text_diff', { a: noise(1), b: noise(2) })
  t.equal(differ.text, 'b: too different for a diff')
})

t.test('time_now tells the time in a zone, and counts on from it', async (t) => {
  const context = await open(t)
  const cases: [JsonObject, string][] = [
    [{ tz: 'UTC' }, '2026-01-31T12:00:00+00:00 (Saturday, week 5, UTC)'],
    [{ tz: 'Asia/Kolkata' }, '2026-01-31T17:30:00+05:30 (Saturday, week 5, Asia/Kolkata)'],
    [{ tz: '+02:00' }, '2026-01-31T14:00:00+02:00 (Saturday, week 5, +02:00)'],
    [{ tz: 'UTC', add: 'P1M' }, 'after 2026-02-28T12:00:00+00:00 (Saturday, week 9, UTC)'],
    [{ tz: 'UTC', add: '-P1Y2M' }, 'after 2024-11-30T12:00:00+00:00'],
    [{ tz: 'UTC', add: 'P1W' }, 'after 2026-02-07T12:00:00+00:00'],
    [{ tz: 'UTC', add: '-PT36H' }, 'after 2026-01-30T00:00:00+00:00'],
    [{ tz: 'Europe/Berlin', add: 'P2M' }, 'after 2026-03-31T13:00:00+02:00'],
    [{}, '2026-01-31T'],
  ]
  for (const [args, text] of cases) t.match((await use(context, 'time_now', args)).text, text)
  const wrong: [JsonObject, RegExp][] = [
    [{ tz: 'Mars/Base' }, /no time zone .*Mars\/Base/],
    [{ tz: '' }, /no time zone and duration: $/],
    [{ add: '1 month' }, /duration: .* and 1 month/],
    [{ add: 'P' }, /duration: .* and P$/],
    [{ add: 'P999999999Y' }, /duration: .* and P999999999Y/],
  ]
  for (const [args, message] of wrong)
    await t.rejects(use(context, 'time_now', args), { message }, JSON.stringify(args))
})

t.test('time_now keeps up with the clock, also where a zone changes', async (t) => {
  const context = await open(t)
  const seen: [now: string, tz: string, text: string][] = [
    ['2026-03-29T00:59:50.999Z', 'Europe/Berlin', 'now 2026-03-29T01:59:50+01:00'],
    ['2026-03-29T00:59:59Z', 'Europe/Berlin', 'now 2026-03-29T01:59:59+01:00'],
    ['2026-03-29T00:59:59Z', '-00:30', 'now 2026-03-29T00:29:59-00:30'],
    ['2026-03-29T01:00:00Z', 'Europe/Berlin', 'now 2026-03-29T03:00:00+02:00'],
    ['2026-03-29T01:00:09Z', 'Europe/Berlin', 'now 2026-03-29T03:00:09+02:00'],
    ['2026-03-29T00:59:07Z', 'Europe/Berlin', 'now 2026-03-29T01:59:07+01:00'],
  ]
  for (const [time, tz, text] of seen) {
    const world = { ...context.world, now: () => Date.parse(time) }
    const said = await use({ ...context, world }, 'time_now', { tz })
    t.match(said.text, text)
    t.match(said.structured, { now: { unix_ms: Date.parse(time) } })
  }
})

t.test('system_info tells the machine and never the environment', async (t) => {
  const env = {
    PATH: process.env['PATH'] ?? '',
    SECRET_TOKEN: 'hush-hush-hush',
    HOME: '/home/somebody',
  }
  const context = await open(t, { env })
  const { text } = await use(context, 'system_info')
  t.match(text, `workspace  ${context.workspace.root}`)
  t.match(text, /^os +\S/)
  t.match(text, /\nmemory +.* free of /)
  t.match(text, /\ndisk +.* free of /)
  t.match(text, /\nnode +\d+\.\d+/)
  t.match(text, /\ngit +(\d|not found)/)
  t.match(text, /\ntai +\d/)
  t.notMatch(text, /hush|somebody/)
  const bare = await use(await open(t, { env: { PATH: '/nowhere' } }), 'system_info')
  t.match(bare.text, /\ngit +not found/)
})
