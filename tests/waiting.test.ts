import t from 'tap'
import { deadline, inParallel, retreat, sleep, timeout, within } from '../tai.ts'

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

t.test('deadline gives the result, the failure, or the lateness', async (t) => {
  const late = () => new Error('late')
  t.equal(await deadline(1_000, Promise.resolve(7), late), 7)
  await t.rejects(deadline(1_000, Promise.reject(new Error('bad')), late), { message: 'bad' })
  await t.rejects(deadline(5, never, late), { message: 'late' })
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

t.test('retreat stops at the first step that ends it', async (t) => {
  const taken: string[] = []
  const ended = Promise.withResolvers<void>()
  const step = (name: string, act = () => {}) => ({
    wait: 5,
    do: () => void (taken.push(name), act()),
  })
  t.equal(
    await retreat(ended.promise, [step('ask'), step('insist', ended.resolve), step('force')]),
    true,
  )
  t.strictSame(taken, ['ask', 'insist'])
  t.equal(await retreat(never, [step('ask')]), false)
})

t.test('inParallel keeps the order of results and the width', async (t) => {
  let running = 0
  let most = 0
  const work = async (n: number) => {
    most = Math.max(most, (running += 1))
    await sleep(3 - n)
    running -= 1
    return n * 2
  }
  t.strictSame(await inParallel([0, 1, 2, 1, 0], 2, work), [0, 2, 4, 2, 0])
  t.equal(most, 2)
  t.strictSame(await inParallel([], 3, work), [])
})
