// An MCP server in a process of its own, whose tools and answers a test writes, and may write anew.
//
//   const stub = upstream(dir, { tools: [toolNamed('ping')], calls: { ping: { hang: true } } })
//   stub.entry      to be added
//   stub.say({...}) from now on it says this
//   stub.seen()     the messages it was sent, each with the pid of who got it
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { McpEntry } from '../../tai.ts'
import { entryOf } from './entry.ts'

export type Answer =
  | { echo: true } // its params as text
  | { changed: true } // the same, after word that the tools have changed
  | { result: unknown }
  | { error: { code: number; message: string; data?: unknown } }
  | { env: string } // the value of a variable
  | { die: string } // it ends, with this on stderr
  | { hang: true }
export type Saying = {
  tools: readonly unknown[]
  calls?: Readonly<Record<string, Answer>>
  greeting?: string
}
type Seen = { pid: number; id?: number; method: string; params?: Record<string, unknown> }

const SCRIPT = fileURLToPath(new URL('mcpserver.ts', import.meta.url))

export const toolNamed = (name: string, description = `It does ${name}.`, properties = {}) => ({
  name,
  description,
  inputSchema: { type: 'object', properties },
})

/** A server whose file is in `dir`, under its name. */
export function upstream(dir: string, saying: Saying, more: Partial<McpEntry> = {}) {
  const { name = 'stub' } = more
  const file = join(dir, `${name}.json`)
  const log = `${file}.seen`
  const say = (next: Saying) => writeFileSync(file, JSON.stringify(next))
  const seen = (): Seen[] =>
    existsSync(log)
      ? readFileSync(log, 'utf8')
          .split('\n')
          .filter(Boolean)
          .map((line): Seen => JSON.parse(line))
      : []
  say(saying)
  return {
    entry: entryOf({ name, command: process.execPath, args: [SCRIPT, file], ...more }),
    say,
    seen,
    calls: () => seen().filter(({ method }) => method === 'tools/call'),
    /** Waits until it was sent `count` messages of a method. */
    async got(method: string, count = 1, ms = 10_000) {
      const end = performance.now() + ms
      while (seen().filter((each) => each.method === method).length < count) {
        if (performance.now() > end) throw new Error(`no ${method}: ${JSON.stringify(seen())}`)
        await pause(20)
      }
    },
  }
}

/** The words that add it on a command line, and a paste that does. */
export const wordsOf = ({ command = '', args }: McpEntry) => ['--', command, ...args]
export const pasteOf = (...entries: McpEntry[]) =>
  JSON.stringify({
    mcpServers: Object.fromEntries(
      entries.map(({ name, command, args, env }) => [name, { command, args, env }]),
    ),
  })
