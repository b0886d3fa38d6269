// Programs by others. They stand in tests/peers with a lock file of their own and are installed
// when a test first asks for one; they run under the Node that runs the tests.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = fileURLToPath(new URL('../..', import.meta.url))
let installed: Promise<unknown> | undefined

/** The absolute path of a file of theirs, such as `mcp-remote/dist/proxy.js`. */
export async function peer(file: string): Promise<string> {
  installed ??= promisify(execFile)(process.execPath, ['build.mjs', '--peers'], { cwd: root })
  await installed
  return `${root}tests/peers/node_modules/${file}`
}
