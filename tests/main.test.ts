import t from 'tap'
import { main, TaiError, type Outside } from '../tai.ts'
import { keptOutput, outsideOf, runMain } from './fakes/outside.ts'

t.test('main returns an exit code and never throws', async (t) => {
  t.match(await runMain(['--version']), { code: 0, out: /^tai \d/, err: '' })
  t.match(await runMain(['--help']), { code: 0, out: /git diff/ })
  t.match(await runMain(['--nope']), { code: 2, out: '', err: /^tai: unknown flag --nope\n {2}\S/ })
  t.match(await runMain(['--no-stdin']), { code: 2, err: /nothing to do/ })
  t.match(await runMain(['--no-stdin', 'hi']), { code: 3, err: /no model is set up/ })
  t.match(await runMain(['secret', 'lst']), { code: 2, err: /has no verb lst: set, list/ })
})

t.test('an output that failed is said once; a reader that left is no error', async (t) => {
  const failing: Outside = {
    ...outsideOf(),
    out: Object.assign(keptOutput(), { failure: new TaiError('cannot write output: disk full') }),
  }
  t.equal(await main(['tools', 'list'], failing), 1)
  const closed = { ...outsideOf(), out: Object.assign(keptOutput(), { closed: true }) }
  t.equal(await main(['tools', 'show', 'nope'], closed), 0)
  t.equal(closed.err.text, '')
})
