// The built binary as an MCP server, on a free port.
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { start, type RunOptions } from './tai.ts'

export const KEY = 'key-of-a-test-server'

export type Serving = { url: string; close: () => Promise<void> }

/** `tai --serve-mcp`, once it listens; `close` ends it and waits until it has gone. */
export async function serve(options: RunOptions = {}): Promise<Serving> {
  const child = await start(['--serve-mcp', KEY, '--mcp-port', '0'], options)
  child.stderr.resume()
  const gone = once(child, 'close')
  const lines = createInterface({ input: child.stdout })
  const first = once(lines, 'line').then(([line]) => String(line))
  const url = await Promise.race([first, gone.then(([code]) => Promise.reject(code))])
  return { url, close: async () => void (child.kill(), await gone) }
}
