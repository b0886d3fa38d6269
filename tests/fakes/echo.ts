// The nearest thing to a server that does nothing: node:http, the JSON of the body read, RESULT
// (JSON, the first argument) given back under the message's id.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const result: unknown = JSON.parse(process.argv[2] ?? 'null')
const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    const { id } = JSON.parse(Buffer.concat(pieces).toString())
    const body = JSON.stringify({ jsonrpc: '2.0', id, result })
    const length = Buffer.byteLength(body)
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': length })
    response.end(body)
  })
})
server.keepAliveTimeout = 60_000 // its connections rest while the others are measured
await once(server.listen(0, '127.0.0.1'), 'listening')
console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`)
