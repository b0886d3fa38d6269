// The built binary as a server over stdin and stdout, as a host starts it.
//
//   const server = await pipe(t)
//   await server.ask('tools/list')          {result} or {error}
//   server.say('any line'); await server.next()
import { createInterface } from 'node:readline'
import type { JsonObject } from '../../tai.ts'
import { ended, folder, start, type RunOptions } from './tai.ts'

type Test = { teardown(work: () => unknown): void }
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into messages freely
type Message = any

export const MODERN = '2026-07-28'
export const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
}

export async function pipe(t: Test, options: RunOptions & { args?: readonly string[] } = {}) {
  const home = options.home ?? folder()
  const cwd = options.cwd ?? folder()
  const child = await start(['mcp', 'serve', ...(options.args ?? [])], { ...options, home, cwd })
  const done = ended(child, 110_000)
  const said = { err: '' }
  const heard: Message[] = []
  const waiting: ((message: Message) => void)[] = []
  child.stderr.on('data', (piece: Buffer) => (said.err += String(piece)))
  child.stdin.on('error', () => {})
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message: Message = JSON.parse(line) // or the test fails: stdout is for messages
    const next = waiting.shift()
    if (next) next(message)
    else heard.push(message)
  })
  t.teardown(async () => {
    child.kill('SIGTERM')
    await done
  })
  const next = (): Promise<Message> =>
    new Promise((resolve) => {
      const message = heard.shift()
      if (message === undefined) waiting.push(resolve)
      else resolve(message)
    })
  const say = (line: string | object) =>
    child.stdin.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
  let ids = 0
  const send = (method: string, params: JsonObject = {}) => {
    say({ jsonrpc: '2.0', id: ++ids, method, params })
    return ids
  }
  /** One request whose answer is awaited before anything else is sent. */
  const ask = async (method: string, params: JsonObject = {}): Promise<Message> => {
    const id = send(method, params)
    const message = await next()
    if (message.id !== id) throw new Error(`not the answer to ${id}: ${JSON.stringify(message)}`)
    return message
  }
  const call = (name: string, args: JsonObject = {}, more: JsonObject = {}) =>
    ask('tools/call', { name, arguments: args, ...more })
  return { child, done, said, home, cwd, say, send, ask, call, next }
}
