import t from 'tap'
import { Lane, sleep, timeout, within } from '../tai.ts'

const never = new Promise<never>(() => {})

t.test('within tells settled from late, and never rejects', async (t) => {
  t.equal(await within(5, never), false)
  t.equal(await within(1_000, Promise.resolve()), true)
  t.equal(await within(1_000, Promise.reject(new Error('x'))), true)
})

t.test('sleep ends at once when it is stopped', async (t) => {
  const stop = new AbortController()
  const nap = sleep(60_000, stop.signal)
  stop.abort(new Error('enough'))
  await t.rejects(nap, { message: 'enough' })
  await t.rejects(sleep(1, stop.signal), { message: 'enough' })
  await sleep(1)
})

t.test('a timeout aborts with its reason, or with its parent, and can be called off', async (t) => {
  const late = () => new Error('late')
  const parent = new AbortController()
  const clock = timeout(60_000, late, parent.signal)
  parent.abort(new Error('stopped'))
  t.equal(clock.signal.reason.message, 'stopped')
  clock[Symbol.dispose]()
  const short = timeout(1, late)
  await new Promise((resolve) => short.signal.addEventListener('abort', resolve))
  t.equal(short.signal.reason.message, 'late')
})

t.test('a Lane runs one work after the other, in the order it came, whatever fails', async (t) => {
  const lane = new Lane()
  const seen: string[] = []
  const first = Promise.withResolvers<void>()
  const work = (name: string, wait?: Promise<void>) => async () => {
    seen.push(`${name} begins`)
    await wait
    seen.push(`${name} ends`)
    if (name === 'b') throw new Error('b failed')
    return name
  }
  const results = [lane.run(work('a', first.promise)), lane.run(work('b')), lane.run(work('c'))]
  t.equal(lane.length, 3)
  await sleep(1)
  t.strictSame(seen, ['a begins'])
  first.resolve()
  t.match(await Promise.allSettled(results), [
    { value: 'a' },
    { reason: { message: 'b failed' } },
    { value: 'c' },
  ])
  t.strictSame(
    seen,
    ['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} ends`]),
  )
  t.equal(lane.length, 0)
  t.equal(await lane.run(async () => 'again'), 'again')
})
