// A server of the official SDK with one tool, `echo`, in the way that the first argument names:
// `events` and `json` are its two kinds of reply, `resume` closes each reply's stream before the
// answer and keeps it for who asks again, `sse` is the older transport. Prints its port, but for `stdio`.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import * as z from 'zod/v4'

const [, , kind] = process.argv
const sessions = new Map()

/** What was sent on any stream, in order; the SDK's example sorts events of one millisecond by chance. */
function newStore() {
  const events = []
  return {
    storeEvent: async (stream, message) => String(events.push({ stream, message })),
    getStreamIdForEventId: async (id) => events[id - 1]?.stream,
    async replayEventsAfter(last, { send }) {
      const { stream } = events[last - 1]
      for (const [at, event] of events.entries())
        if (at >= last && event.stream === stream) await send(String(at + 1), event.message)
      return stream
    },
  }
}

async function open(transport) {
  const server = new McpServer(
    { name: 'echo', version: '1.0.0' },
    { capabilities: { logging: {} } },
  )
  server.registerTool('echo', { inputSchema: { text: z.string() } }, async ({ text }, extra) => {
    await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data: 'x' } })
    if (kind === 'resume') extra.closeSSEStream()
    return { content: [{ type: 'text', text }] }
  })
  await server.connect(transport)
  return transport
}

const streamable = () =>
  open(
    new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: kind === 'json',
      ...(kind === 'resume' && { eventStore: newStore(), retryInterval: 50 }),
    }),
  )

const server = createServer(async (request, response) => {
  const { searchParams } = new URL(request.url, 'http://localhost')
  if (kind !== 'sse') {
    const known = sessions.get(request.headers['mcp-session-id'])
    const transport = known ?? (await streamable())
    await transport.handleRequest(request, response)
    if (transport.sessionId) sessions.set(transport.sessionId, transport)
  } else if (request.method === 'GET') {
    const transport = new SSEServerTransport('/post', response)
    sessions.set(transport.sessionId, transport)
    await open(transport)
  } else await sessions.get(searchParams.get('sessionId')).handlePostMessage(request, response)
})
if (kind === 'stdio') await open(new StdioServerTransport())
else server.listen(0, '127.0.0.1', () => console.log(server.address().port))
