// A small program for tests of §terminal: does one thing with the outputs or the
// controlling terminal, and reports on stderr what came of it.

import { setTimeout as pause } from 'node:timers/promises'
import { Output, spinnerOn, style, ttyPrompter } from '../../tai.ts'

const { env } = process
const stdout = new Output(1, { env })
const stderr = new Output(2, { env })
const [task = '', extra = ''] = process.argv.slice(2)
const never = new AbortController().signal
const choices = [
  { key: 'y', label: 'yes, once' },
  { key: 's', label: 'session' },
  { key: 'n', label: 'no' },
]
const prompter = ttyPrompter()
if (task === 'choose') process.on('SIGINT', () => void stderr.write('interrupted\n'))
const tell = (answer: unknown) => void stderr.write(`answer ${JSON.stringify(answer)}\n`)

const TASKS: Record<string, () => Promise<void>> = {
  facts: async () => {
    const { isTerminal, color, columns } = stdout
    stderr.write(`${JSON.stringify({ isTerminal, color, columns })}\n`)
  },
  lines: async () => {
    for (let i = 0; i < Number(extra); i++) {
      if (!stdout.write(`line ${i}\n`)) await stdout.drained()
      if (i % 1000 === 0) await pause(0)
      if (stdout.gone.aborted) break
    }
    await stdout.drained()
    stderr.write(`closed ${stdout.closed} failure ${stdout.failure?.message}\n`)
  },
  stuck: async () => {
    stdout.write('x'.repeat(5_000_000))
    await pause(0)
    stderr.write(`alive, queued\n`)
    await stdout.drained(AbortSignal.timeout(50))
    process.exit(7)
  },
  full: async () => {
    stderr.write(`queued ${!stdout.write('xxx\n')}\n`)
    await stdout.drained()
  },
  flood: async () => {
    stdout.write(`${stdout.columns}\n`)
    stdout.write('0123456789abcde\n'.repeat(100_000))
    await stdout.drained()
    stdout.write('end\n')
  },
  available: async () => tell(prompter.available),
  choose: async () => {
    if (extra === 'ahead') stderr.write('not yet\n')
    if (extra === 'ahead') await pause(200)
    const signal = extra === 'late' ? AbortSignal.timeout(200) : never
    tell(await prompter.choose('Run \u001b[31mrm\u202e?\nSure?', choices, signal))
  },
  two: async () => tell(await Promise.all(['A?', 'B?'].map((q) => prompter.ask(q, {}, never)))),
  secret: async () => tell(await prompter.ask('Passphrase:', { secret: true }, never)),
  abort: async () => tell(await prompter.ask('Anyone?', {}, AbortSignal.timeout(100))),
  hold: async () => {
    const spinner = spinnerOn(stderr, stdout)
    spinner.start('first')
    await pause(150)
    const asker = ttyPrompter(() => spinner.pause())
    const answer = asker.ask('Name?', {}, AbortSignal.timeout(500))
    await answer
    await pause(250)
    spinner.stop()
    tell(spinner.pause()[Symbol.dispose]())
  },
  spin: async () => {
    const spinner = spinnerOn(stderr, stdout)
    spinner.start(`thinking\u001b[2J`)
    await pause(250, undefined)
    stdout.write('text')
    spinner.start('in the middle of a line')
    stdout.write(`\n${stdout.paint('done', 'green')} ${style('x', 'dim')}\n`)
  },
}
await TASKS[task]?.()
