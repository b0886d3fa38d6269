import t from 'tap'
import {
  App,
  firstCodeBlock,
  Given,
  jsonPresenter,
  textPresenter,
  withoutSecrets,
  type AgentEvent,
  type Renderer,
  type TurnOutcome,
} from '../tai.ts'
import { outsideOf } from './fakes/outside.ts'

const call = { id: 'c1', name: 'read_file', args: { path: 'a' } }
const reply = {
  role: 'tool',
  id: 'c1',
  name: 'read_file',
  text: 'content',
  isError: false,
} as const
const text = (piece: string): AgentEvent => ({ kind: 'text', text: piece })
const done: AgentEvent[] = [
  { kind: 'call', call, digest: 'd' },
  { kind: 'result', call, reply, ms: 3 },
]
const outcome = (answer: string, error?: TurnOutcome['error']): TurnOutcome => ({
  answer,
  session: 's',
  model: 'm',
  steps: 1,
  usage: { input: 1, output: 2, cached: 0 },
  cost: null,
  tools: [],
  exit: error?.code ?? 0,
  ...(error && { error }),
})

type Presenter = ReturnType<typeof textPresenter> | ReturnType<typeof jsonPresenter>
const AS_IT_IS: Renderer = { push: (piece) => piece, end: () => '' }

function openApp(terminal = false, flags: string[] = []) {
  const given = new Given(new Map(flags.map((flag) => [flag, []])))
  const outside = outsideOf({ terminal })
  return { ...outside, app: new App({ ...outside, given }) }
}

function play(
  events: AgentEvent[],
  end: TurnOutcome,
  more: { terminal?: boolean; flags?: string[]; renderer?: Renderer; secret?: string } = {},
  make = (app: App): Presenter => textPresenter(app, more.renderer ?? AS_IT_IS, true),
) {
  const { app, out, err } = openApp(more.terminal, more.flags)
  if (more.secret) app.redactor.add('K', more.secret)
  const presenter = make(app)
  const see = withoutSecrets(app.redactor, (event) => presenter.event(event))
  for (const event of events) see(event)
  see()
  presenter.end(end)
  return { out: out.text, err: err.text }
}

t.test(
  'in a pipe the answer is what the last step says; the way there is for who watches',
  async (t) => {
    t.strictSame(
      play(
        [text('Let me '), text('look.'), ...done, text('It is '), text('7.')],
        outcome('It is 7.'),
      ),
      { out: 'It is 7.\n', err: '' },
    )
    const watched = play([text('Let me look.'), ...done, text('7')], outcome('7'), {
      terminal: true,
    })
    t.equal(watched.out, '7\n')
    t.match(watched.err, /Let me look\.\n✓ read_file \{"path":"a"\} 3 ms\n/)
    t.equal(
      play([text('Let me look.'), ...done, text('7')], outcome('7'), {
        terminal: true,
        flags: ['quiet'],
      }).err,
      '',
    )
  },
)

t.test('a long text is taken for the answer and flows', async (t) => {
  const { app, out } = openApp()
  const presenter = textPresenter(app, AS_IT_IS, true)
  presenter.event(text('x'.repeat(4_000)))
  t.equal(out.text, '')
  presenter.event(text('x'.repeat(4_000)))
  t.equal(out.text.length, 8_000)
})

t.test('an answer that broke off is shown as far as it came', async (t) => {
  const error = { message: 'broke off', hint: null, code: 3 }
  t.equal(play([text('The answer ')], outcome('', error)).out, 'The answer \n')
  t.equal(
    play([text('{"n":')], outcome('', error), {
      renderer: { push: () => '', end: ({ error: e }) => (e ? '' : 'x') },
    }).out,
    '',
  )
})

t.test('a secret is taken out of text, thoughts and arguments, also where it is cut', async (t) => {
  const secret = 'sesame-open'
  const split: AgentEvent[] = [
    { kind: 'reasoning', text: 'it is sesame' },
    { kind: 'reasoning', text: '-open.\n' },
    text('sesa'),
    text('me-open!'),
  ]
  const shown = play(split, outcome('x'), { secret, terminal: true })
  t.notMatch(shown.out + shown.err, 'sesame-open')
  t.equal(shown.out, '[redacted:K]!\n')
  const stream = play(split, outcome('x'), { secret, flags: ['stream-json'] }, (app) =>
    jsonPresenter(app, { session: 's' }),
  )
  const lines = stream.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.equal(
    lines
      .filter((line) => line.type === 'reasoning')
      .map((line) => line.text)
      .join(''),
    'it is [redacted:K].\n',
  )
})

t.test('a renderer draws what is shown, and what it holds back at the end', async (t) => {
  const renderer: Renderer = { push: (piece) => piece.toUpperCase(), end: () => '.' }
  t.equal(play([text('hi')], outcome('hi'), { renderer }).out, 'HI.\n')
})

t.test(
  '--json is one object; --stream-json is a line an event, the last that object',
  async (t) => {
    const json = play(
      [text('7'), { kind: 'notice', text: 'tried again' }],
      outcome('7'),
      {},
      (app) => jsonPresenter(app),
    )
    t.strictSame(JSON.parse(json.out), outcome('7'))
    t.equal(json.err, 'tai: tried again\n')
    const events: AgentEvent[] = [
      ...done,
      text('7'),
      { kind: 'usage', usage: { input: 1, output: 2, cached: 0 }, cost: undefined },
    ]
    const stream = play(events, outcome('7'), { flags: ['stream-json'] }, (app) =>
      jsonPresenter(app, { session: 's' }),
    )
    t.match(
      stream.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
      [
        { type: 'start', session: 's' },
        { type: 'tool_call', id: 'c1', name: 'read_file', args: { path: 'a' }, digest: 'd' },
        { type: 'tool_result', id: 'c1', text: 'content', is_error: false, ms: 3 },
        { type: 'text', text: '7' },
        { type: 'usage', input: 1, output: 2, cost: null },
        { type: 'end', ...outcome('7') },
      ],
    )
  },
)

t.test('the first code block of an answer', async (t) => {
  const cases: [string, string | undefined][] = [
    ['a\n```js\nx\ny\n```\nb\n```\nz\n```', 'x\ny\n'],
    ['~~~\nx\n~~~', 'x\n'],
    ['````\n```\nx\n```\n````', '```\nx\n```\n'],
    ['no block', undefined],
    ['```\nnever closed', undefined],
  ]
  for (const [answer, block] of cases) t.equal(firstCodeBlock(answer), block)
})
