// An MCP server without a wire: answers each method by a function, and remembers what it was sent.
//
//   const transport = scripted({ initialize: () => hello, 'tools/list': () => ({ tools: [] }) })
//   transport.sent        every message, with the headers it came with
//   transport.say({...})  a message of the server's own
//
// A function may throw RpcError (a reply with that error) or LinkError (the message cannot be sent),
// or return a promise; a method that is not there is never answered.
import { RpcError, RpcTransport, type JsonObject } from '../../tai.ts'

type Answer = JsonObject | Promise<JsonObject>
export type Script = Readonly<Record<string, (params: JsonObject) => Answer>>
type Sent = {
  method?: string
  id?: number | string
  params?: JsonObject
  result?: unknown
  error?: unknown
  headers?: Readonly<Record<string, string>> | undefined
}
export class Scripted extends RpcTransport {
  readonly sent: Sent[] = []
  closed = 0
  readonly #script
  constructor(script: Script) {
    super()
    this.#script = script
  }

  say(message: object) {
    this.receive({ jsonrpc: '2.0', ...message })
  }

  async send(said: object, _end?: unknown, headers?: Sent['headers']) {
    const message: Sent = { ...JSON.parse(JSON.stringify(said)), headers }
    this.sent.push(message)
    const { method = '', id, params = {} } = message
    const answer = this.#script[method]
    if (id === undefined || answer === undefined) return
    try {
      this.say({ id, result: await answer(params) })
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      const { code, message: words, data } = error
      this.say({ id, error: { code, message: words, data } })
    }
  }

  async close() {
    this.closed += 1
  }
}

export const scripted = (script: Script) => new Scripted(script)
