// The outside of one run, in memory: what was written to each output, and a home of its own.
import { randomBytes } from 'node:crypto'
import {
  denyPrompter,
  spinnerOn,
  interruptsOf,
  main,
  type Output,
  type Outside,
  type Prompter,
} from '../../tai.ts'
import { folder } from './tai.ts'

export type Written = Output & { text: string }

/** An output that keeps what is written to it. */
export function keptOutput(isTerminal = false): Written {
  const gone = new AbortController()
  const output = {
    text: '',
    isTerminal,
    redraws: false,
    color: false,
    columns: 80,
    closed: false,
    failure: undefined,
    gone: gone.signal,
    get atLineStart() {
      return output.text === '' || output.text.endsWith('\n')
    },
    write: (text: string) => {
      output.text += text
      return true
    },
    writeLine: (text: string) => output.write(`${output.atLineStart ? '' : '\n'}${text}\n`),
    paint: (text: string) => text,
    beforeWrite: () => {},
    drained: async () => {},
  }
  return output as unknown as Written
}

export type Settings = {
  env?: Record<string, string>
  home?: string
  prompter?: Prompter
  terminal?: boolean
  cwd?: string
}

/** An Outside whose outputs are kept. */
export function outsideOf(settings: Settings = {}): Outside & { out: Written; err: Written } {
  const home = settings.home ?? folder()
  return {
    world: {
      env: { PATH: process.env['PATH'], HOME: home, ...settings.env },
      platform: process.platform,
      cwd: settings.cwd ?? home,
      home: `${home}/.tai`,
      pid: process.pid,
      now: () => Date.now(),
      randomBytes,
    },
    out: keptOutput(settings.terminal),
    err: keptOutput(settings.terminal),
    spinner: spinnerOn(keptOutput()),
    prompter: settings.prompter ?? denyPrompter,
    signal: new AbortController().signal,
    interrupts: interruptsOf(
      () => {},
      () => {},
    ),
  }
}

/** Runs one command line in this process. */
export async function runMain(
  argv: string[],
  settings: Settings = {},
): Promise<{ code: number; out: string; err: string }> {
  const outside = outsideOf(settings)
  const code = await main(argv, outside)
  return { code, out: outside.out.text, err: outside.err.text }
}
