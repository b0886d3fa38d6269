// Runs a command on a real pseudo-terminal, by way of util-linux `script`, and
// types into it on cue. No cue is a pause: each step waits for what it names.

import { spawn, spawnSync } from 'node:child_process'

export type PtyStep = { readonly wait: RegExp; readonly type: string }
export type PtyOptions = {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly columns?: number // default 80
  readonly timeout?: number // milliseconds for the whole run, default 20 s
}
export type PtyResult = { readonly output: string; readonly code: number }

/** Whether pseudo-terminals can be had here; tests skip where not. */
export const ptyAvailable: boolean =
  process.platform === 'linux' && spawnSync('script', ['--version']).status === 0

/** What a test runner puts into its children, late: hooks for signals, and words about colours. */
const RUNNER = ['NODE_OPTIONS', 'NODE_DISABLE_COLORS', 'NO_COLOR', 'FORCE_COLOR']

/**
 * Runs a shell command with a pseudo-terminal as stdin, stdout, stderr and controlling
 * terminal. Each step waits until its pattern appears after the previous step's match,
 * then types. Resolves with everything shown and the exit code; rejects when a cue does
 * not come or the command does not end in time.
 */
export function runInPty(
  command: string,
  steps: readonly PtyStep[] = [],
  options: PtyOptions = {},
): Promise<PtyResult> {
  const unset = RUNNER.filter((name) => options.env?.[name] === undefined).join(' ')
  const sized = `unset ${unset}; stty cols ${options.columns ?? 80} rows 24; ${command}`
  const child = spawn('script', ['-qefc', sized, '/dev/null'], {
    cwd: options.cwd,
    env: { ...process.env, TERM: 'xterm-256color', SHELL: '/bin/sh', ...options.env },
    detached: true, // an own group, so that a late run ends whole
  })
  const { promise, resolve, reject } = Promise.withResolvers<PtyResult>()
  const queue = [...steps]
  let output = ''
  let seen = 0
  const advance = () => {
    for (let step = queue[0]; step !== undefined; step = queue[0]) {
      const found = step.wait.exec(output.slice(seen))
      if (found === null) return
      seen += found.index + found[0].length
      queue.shift()
      child.stdin.write(step.type)
    }
  }
  const fail = (why: string) =>
    reject(new Error(`${why}; waiting for ${queue[0]?.wait ?? 'the end'}; shown: ${output}`))
  const clock = setTimeout(() => {
    fail('too late')
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }, options.timeout ?? 20_000)
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    output += piece
    advance()
  })
  child.stdin.on('error', () => {}) // the command ended before it read what was typed
  child.on('error', reject)
  child.on('close', (code, signal) => {
    clearTimeout(clock)
    if (queue.length > 0) fail(`ended early with ${code ?? signal}`)
    else resolve({ output, code: code ?? 128 })
  })
  return promise
}
