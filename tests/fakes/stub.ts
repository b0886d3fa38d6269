// MCP servers over HTTP: the scripts of family c, each in a plain Node of its own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

type Case = { id: string; input: { script: string } }
const CASES = readFileSync(new URL('../data/cases.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line): Case => JSON.parse(line))

/** What a stub writes of each request. */
export type Seen = { verb: string; url: string; rpc?: string; session?: string; version?: string }

export type Stub = {
  ports: number[] // as it printed them
  url: string
  said: string[] // lines of stderr that are no request
  seen: Seen[]
  close(): Promise<void> // after all it wrote has been read
}

/** Starts the server of a case, which prints `count` ports. */
export async function startStub(id: string, count = 1): Promise<Stub> {
  const { script } = CASES.find((each) => each.id === id)!.input
  const child = spawn(process.execPath, ['-e', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] },
  })
  const stub: Stub = { ports: [], url: '', said: [], seen: [], close: async () => {} }
  createInterface(child.stderr).on('line', (line) => {
    if (line.startsWith('{')) stub.seen.push(JSON.parse(line))
    else stub.said.push(line)
  })
  const gone = once(child, 'close')
  stub.close = async () => void (child.kill(), await gone)
  const names = new Map<string, number>()
  for await (const line of createInterface(child.stdout)) {
    const [name = '', port] = line.split(' ')
    names.set(name, Number(port))
    if (names.size === count) break
  }
  child.stdout.resume() // else it never closes
  stub.ports = [...names.values()]
  stub.url = `http://127.0.0.1:${names.get('LISTENING')}/mcp`
  return stub
}
