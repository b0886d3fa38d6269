// A server of the official SDK's second line with one tool, `echo`: on stdio, or with `http` as the
// first argument over HTTP, whose port it prints. `only` as the second: no client of 2025.
import { createServer } from 'node:http'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import * as z from 'zod/v4'

const [, , kind, only] = process.argv
const legacy = only === 'only' ? 'reject' : undefined

function make() {
  const server = new McpServer({ name: 'newer', version: '1.0.0' }, { capabilities: { tools: {} } })
  const inputSchema = z.object({ text: z.string() })
  server.registerTool('echo', { inputSchema }, async ({ text }) => ({
    content: [{ type: 'text', text }],
  }))
  return server
}

async function answer(handler, request, response) {
  const body = []
  for await (const piece of request) body.push(piece)
  const { method, headers, url } = request
  const reply = await handler.fetch(
    new Request(`http://127.0.0.1${url}`, {
      method,
      headers,
      body: body.length > 0 ? Buffer.concat(body) : undefined,
    }),
  )
  response.writeHead(reply.status, Object.fromEntries(reply.headers))
  for await (const piece of reply.body ?? []) response.write(piece)
  response.end()
}

if (kind === 'http') {
  const handler = createMcpHandler(make, legacy ? { legacy } : {})
  const server = createServer((request, response) => void answer(handler, request, response))
  server.listen(0, '127.0.0.1', () => console.log(server.address().port))
} else serveStdio(make, legacy ? { legacy } : {})
