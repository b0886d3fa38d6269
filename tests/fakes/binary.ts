import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('../..', import.meta.url))
const path = `${root}dist/tai${process.platform === 'win32' ? '.exe' : ''}`
let made: Promise<string> | undefined

/** The absolute path of a dist/tai that is as new as its sources. build.mjs holds a lock, so test
 * files that ask at the same time wait for one build. */
export function binary(): Promise<string> {
  made ??= make()
  return made
}

async function make(): Promise<string> {
  await promisify(execFile)(process.execPath, ['build.mjs', '--fresh'], { cwd: root })
  return path
}
