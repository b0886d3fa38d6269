// A server on stdio for tests. It answers each request with what its method asks for:
//   echo      its params
//   env       its environment, folder and arguments
//   say       params.text on params.to ('stdout', 'stderr'), and then the reply
//   end       nothing: params.text goes to stderr, then it ends with params.code or by params.signal
//   deaf      {}, and from then on it reads nothing
//   mute      {}, and from then on its stdin is closed
//   trickle   params, one byte at a time
//   swarm     {} after params.count notifications in the same write
//   large     a line of params.size bytes
// With STUBBORN=eof it stays when stdin ends, with STUBBORN=all it ignores signals too.
import { closeSync } from 'node:fs'

type Params = Record<'text' | 'to' | 'signal', string> & Record<'code' | 'size' | 'count', number>
type Method = (id: number, params: Params) => Promise<unknown>

const stubborn = process.env['STUBBORN']
const stay = () => setInterval(() => {}, 1_000)
if (stubborn) stay()
if (stubborn === 'all')
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => {})

const write = (text: string | Uint8Array, to: NodeJS.WritableStream = process.stdout) =>
  new Promise((done) => to.write(text, done))
const reply = (id: number, result: object) => `${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`
const send = (id: number, result: object) => write(reply(id, result))
const note = (n: number) => JSON.stringify({ jsonrpc: '2.0', method: 'note', params: { n } })

const METHODS: Record<string, Method> = {
  echo: send,
  env: (id) => send(id, { env: process.env, cwd: process.cwd(), argv: process.argv.slice(2) }),
  say: async (id, { text, to }) => {
    await write(text, to === 'stderr' ? process.stderr : process.stdout)
    await send(id, {})
  },
  end: async (_, { text, code, signal }) => {
    await write(text, process.stderr)
    if (signal) process.kill(process.pid, signal)
    else process.exit(code)
  },
  deaf: async (id) => {
    process.stdin.pause()
    stay()
    await send(id, {})
  },
  mute: async (id) => {
    process.stdin.destroy()
    closeSync(0)
    stay()
    await send(id, {})
  },
  trickle: async (id, params) => {
    for (const byte of Buffer.from(reply(id, params))) await write(Uint8Array.of(byte))
  },
  swarm: (id, { count }) => {
    const notes = Array.from({ length: count }, (_, n) => note(n))
    return write(`${notes.join('\n')}\r\n\n${reply(id, {})}`)
  },
  large: (id, { size }) => {
    const empty = reply(id, { text: '' }).length - 1
    return send(id, { text: 'x'.repeat(size - empty) })
  },
}

let held = ''
process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = `${held}${text}`.split('\n')
  held = lines.pop() ?? ''
  for (const line of lines) {
    const { id, method, params } = JSON.parse(line)
    if (id !== undefined) void METHODS[method]?.(id, params)
  }
})
