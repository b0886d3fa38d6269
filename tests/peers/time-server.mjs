// What the bench holds a served call against: the official SDK with sessions and JSON replies, as
// its own examples set it up. LIST is a file with the result of tools/list: McpServer would make
// it anew from its schemas for each request, so it is given ready.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import * as z from 'zod/v4'

const list = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const sessions = new Map()

async function newSession() {
  const server = new McpServer({ name: 'time', version: '1.0.0' })
  const inputSchema = { tz: z.string().default('UTC'), add: z.string().optional() }
  server.registerTool('time_now', { description: 'The time.', inputSchema }, ({ tz }) => {
    const ms = Date.now()
    const now = { iso: new Date(ms).toISOString(), tz, weekday: 'Monday', week: 1, unix_ms: ms }
    const text = `now ${now.iso} (${now.weekday}, week ${now.week}, ${tz})`
    return { content: [{ type: 'text', text }], structuredContent: { now } }
  })
  server.server.setRequestHandler(ListToolsRequestSchema, () => list)
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
  })
  await server.connect(transport)
  return transport
}

async function answer(request, response, message) {
  const id = request.headers['mcp-session-id']
  const transport = id === undefined ? await newSession() : sessions.get(id)
  if (transport === undefined) response.writeHead(404).end()
  else await transport.handleRequest(request, response, message)
}

// The examples, too, hand over a body that is parsed: the transport takes longer to read it.
const server = http.createServer((request, response) => {
  const pieces = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => answer(request, response, JSON.parse(Buffer.concat(pieces).toString())))
})
server.keepAliveTimeout = 60_000 // its connections rest while the others are measured
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`))
