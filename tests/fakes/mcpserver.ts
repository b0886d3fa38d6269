// An MCP server on stdio that answers as a file says, which it reads anew for every message:
//   {tools: [...], calls: {NAME: Answer}, greeting: text for stderr}
// It writes what it was sent to the file of the same name with `.seen` at its end.
import { appendFileSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Answer, Saying } from './upstream.ts'

const [file = ''] = process.argv.slice(2)
const says = (): Saying => JSON.parse(readFileSync(file, 'utf8'))
const send = (message: object) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const textResult = (text: string) => ({ content: [{ type: 'text', text }] })
const { greeting = '' } = says()
process.stderr.write(greeting)

function call(id: number, params: { name: string; arguments: unknown }) {
  const answer: Answer = says().calls?.[params.name] ?? { echo: true }
  if ('die' in answer) {
    process.stderr.write(answer.die, () => process.exit(3))
    return undefined
  }
  if ('hang' in answer) return undefined
  if ('changed' in answer) send({ method: 'notifications/tools/list_changed' })
  if ('error' in answer) return send({ id, error: answer.error })
  if ('result' in answer) return send({ id, result: answer.result })
  if ('env' in answer) return send({ id, result: textResult(String(process.env[answer.env])) })
  return send({ id, result: textResult(JSON.stringify(params)) })
}

for await (const line of createInterface(process.stdin)) {
  const { id, method, params } = JSON.parse(line)
  appendFileSync(`${file}.seen`, `${JSON.stringify({ pid: process.pid, id, method, params })}\n`)
  if (method === 'initialize')
    send({
      id,
      result: {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: 'upstream', version: '1' },
      },
    })
  if (method === 'tools/list') send({ id, result: { tools: says().tools } })
  if (method === 'tools/call') call(id, params)
}
