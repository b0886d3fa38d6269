// An MCP server without a wire: answers each method by a function, and remembers what it was sent.
//
//   const transport = scripted({ initialize: () => hello, 'tools/list': () => ({ tools: [] }) })
//   transport.sent        every message, with the headers it came with
//   transport.say({...})  a message of the server's own
//
// A function may throw RpcError (a reply with that error) or LinkError (the message cannot be sent),
// or return a promise; a method that is not there is never answered.
import { LinkError, RpcError, type JsonObject, type RpcTransport } from '../../tai.ts'

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
export type Scripted = RpcTransport & {
  sent: Sent[]
  closed: number
  say(message: object): void
}

export function scripted(script: Script): Scripted {
  const transport: Scripted = {
    sent: [],
    closed: 0,
    receive: () => false,
    version: undefined,
    hint: undefined,
    lost: () => {},
    say: (message) => transport.receive({ jsonrpc: '2.0', ...message }),
    send: async (said, _signal, headers) => {
      const message: Sent = { ...JSON.parse(JSON.stringify(said)), headers }
      transport.sent.push(message)
      const { method = '', id, params = {} } = message
      const answer = script[method]
      if (id === undefined || answer === undefined) return
      try {
        transport.say({ id, result: await answer(params) })
      } catch (error) {
        if (error instanceof LinkError) throw error
        if (!(error instanceof RpcError)) throw error
        const { code, message: words, data } = error
        transport.say({ id, error: { code, message: words, data } })
      }
    },
    close: async () => void (transport.closed += 1),
  }
  return transport
}
