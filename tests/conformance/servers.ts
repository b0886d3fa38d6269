// Two servers for a suite that can send no key: tai with the fixture tools, and the built binary.
// Each stands behind a proxy that adds the key and changes nothing else.
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import { App, Door, Given, McpServeContext, mcpServeHandler, TOOLS } from '../../tai.ts'
import { outsideOf } from '../fakes/outside.ts'
import { KEY, serve } from '../fakes/served.ts'
import { addResources, demandSampling, FIXTURES } from './fixtures.ts'

export type Target = { url: string; close: () => Promise<void> }

async function listen(server: http.Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function end(server: http.Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

/** Passes requests on as they are, Host and Origin too, with the key beside them. */
async function openProxy(port: number): Promise<Target> {
  const agent = new http.Agent({ keepAlive: true })
  const server = http.createServer((request, response) => {
    const { method, url: path, rawHeaders } = request
    const headers = [...rawHeaders, 'Authorization', `Bearer ${KEY}`]
    const onward = http.request({ port, host: '127.0.0.1', method, path, headers, agent })
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      pipeline(answer, response, () => {})
    })
    pipeline(request, onward, (error) => error && response.destroy())
    response.on('close', () => onward.destroy())
  })
  const url = `http://localhost:${await listen(server)}/mcp`
  return { url, close: () => (agent.destroy(), end(server)) }
}

/** The real handler over the real rows and the fixtures. */
export async function openFixtureServer(): Promise<Target> {
  TOOLS.unshift(...FIXTURES)
  demandSampling()
  addResources()
  const app = new App({ ...outsideOf(), given: new Given() })
  const context = await McpServeContext.open(app, {
    key: KEY,
    usual: 'danger-full-access',
  })
  const door = new Door({ context, hosts: new Set(['localhost', '127.0.0.1', '[::1]']) })
  const server = http.createServer(mcpServeHandler(door))
  const proxy = await openProxy(await listen(server))
  return {
    url: proxy.url,
    close: async () => {
      await proxy.close()
      await end(server)
      await context.close()
      await app.close()
    },
  }
}

/** dist/tai as a person starts it. */
export async function openBinary(): Promise<Target> {
  const ends: (() => unknown)[] = []
  const { port } = await serve({ teardown: (work) => ends.push(work) })
  const proxy = await openProxy(port)
  ends.unshift(proxy.close)
  return {
    url: proxy.url,
    close: async () => {
      for (const work of ends) await work()
    },
  }
}
