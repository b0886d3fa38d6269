import t from 'tap'
import {
  codeOf,
  DeniedError,
  exitCodeOf,
  explain,
  InterruptedError,
  InvalidError,
  LimitError,
  messageOf,
  ModelError,
  TaiError,
  UsageError,
} from '../tai.ts'

t.test('a person reads what went wrong and what to do, never a stack trace', async (t) => {
  const hint = { hint: 'run tai secret set' }
  const cases: [unknown, string][] = [
    [new TaiError('no key', hint), 'no key\n  run tai secret set'],
    [new DeniedError('shell refused'), 'shell refused'],
    [new TaiError('two\n  lines'), 'two lines'],
    [
      new TypeError('x is not a function'),
      'internal error: x is not a function\n  this is a bug of tai; `-v` shows its cause, please report it',
    ],
    [
      'just text',
      'internal error: just text\n  this is a bug of tai; `-v` shows its cause, please report it',
    ],
  ]
  for (const [error, text] of cases) t.equal(explain(error), text)
})

t.test('verbose adds the chain of causes, and a circle ends', async (t) => {
  const inner = new Error('ECONNREFUSED 127.0.0.1')
  const outer = new ModelError('unreachable', {
    cause: new Error('no connection', { cause: inner }),
  })
  t.equal(
    explain(outer, true),
    'unreachable\n  because: no connection\n  because: ECONNREFUSED 127.0.0.1',
  )
  inner.cause = outer
  t.match(explain(outer, true), /^unreachable\n( {2}because: .*\n?)+$/)
})

t.test('each kind has its exit code', async (t) => {
  const cases: [unknown, number][] = [
    [new TaiError('x'), 1],
    [new UsageError('x'), 2],
    [new ModelError('x', { kind: 'busy', status: 429, retryAfter: 1_000 }), 3],
    [new LimitError('x'), 4],
    [new DeniedError('x'), 5],
    [new InvalidError('x'), 6],
    [new InterruptedError('x'), 130],
    [Object.assign(new InterruptedError('x'), { exitCode: 143 }), 143],
    [new Error('x'), 1],
  ]
  for (const [error, code] of cases) t.equal(exitCodeOf(error), code, String(error))
})

t.test('codes and messages of anything that was thrown', async (t) => {
  t.equal(codeOf(Object.assign(new Error('x'), { code: 'ENOENT' })), 'ENOENT')
  t.equal(codeOf('ENOENT'), '')
  t.equal(messageOf(new RangeError()), 'RangeError')
  t.equal(messageOf(undefined), 'undefined')
})
