// A script in a process of its own, whose variables Node reads when it starts.
import { spawn } from 'node:child_process'

/** What it prints, without the last line end. */
export async function printedBy(script: string, env: Record<string, string>): Promise<string> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const piece of child.stdout) text += String(piece)
  return text.trim()
}
