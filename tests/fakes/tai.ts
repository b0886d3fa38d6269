// Runs the built binary as a person would: arguments, a home of its own, stdin, and what came out.
//
//   const run = await tai(['--no-tools', 'hi'], { env: {...}, stdin: 'data' })
//   run.code, run.out, run.err
//
// `start` gives the child itself, for tests that interrupt it.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary } from './binary.ts'

export type RunOptions = {
  env?: Record<string, string>
  home?: string
  cwd?: string
  stdin?: string | Buffer | 'open' | undefined // 'open': a pipe that stays silent
  timeout?: number
  through?: readonly [program: string, ...args: string[]] // which runs the binary
}
export type Ran = {
  code: number | null
  signal: string | null
  out: string
  err: string
  ms: number
}

const made: string[] = []
process.on('exit', () => made.forEach((dir) => rmSync(dir, { recursive: true, force: true })))

/** A fresh empty folder, removed when the test ends. */
export function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'tai-test-'))
  made.push(dir)
  return dir
}

/** The environment in which a model server answers. */
export const modelEnv = (server: { readonly url: string }, model = 'fake-model') => ({
  OPENAI_BASE_URL: `${server.url}/v1`,
  OPENAI_API_KEY: 'test-key',
  TAI_MODEL: `openai/${model}`,
})

/** The child, with nothing of this process's environment but PATH. */
export async function start(
  args: readonly string[],
  options: RunOptions = {},
): Promise<ChildProcessWithoutNullStreams> {
  const file = await binary()
  const env = { PATH: process.env['PATH'] ?? '', HOME: options.home ?? folder(), ...options.env }
  const [program, ...words] = [...(options.through ?? []), file, ...args] as [string, ...string[]]
  return spawn(program, words, {
    env: { TAI_HOME: join(env.HOME, '.tai'), ...env },
    cwd: options.cwd ?? env.HOME,
    stdio: 'pipe',
  })
}

/** Runs to the end; a child that takes longer than `timeout` is killed and has code null. */
export async function tai(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const began = Date.now()
  const child = await start(args, options)
  if (options.stdin !== 'open') child.stdin.end(options.stdin ?? '')
  child.stdin.on('error', () => {})
  return { ...(await ended(child, options.timeout)), ms: Date.now() - began }
}

/** What a child said, once it has ended. */
export async function ended(
  child: ChildProcessWithoutNullStreams,
  timeout = 30_000,
): Promise<Omit<Ran, 'ms'>> {
  const out: Buffer[] = []
  const err: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => out.push(piece))
  child.stderr.on('data', (piece: Buffer) => err.push(piece))
  const timer = setTimeout(() => child.kill('SIGKILL'), timeout)
  const { promise, resolve } = Promise.withResolvers<[number | null, string | null]>()
  child.on('close', (code, signal) => resolve([code, signal]))
  const [code, signal] = await promise
  clearTimeout(timer)
  return { code, signal, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }
}
