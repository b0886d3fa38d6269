// A small HTTP proxy on 127.0.0.1: CONNECT tunnels and absolute-form requests, with or
// without Basic sign-in. Every request goes to `target`, whatever host it names, so that
// tests can ask for names that no resolver knows.
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'

export type FakeProxy = AsyncDisposable & {
  readonly port: number
  readonly seen: string[] // "CONNECT host:port", "GET http://host/path"
}

export async function startProxy(target: number, signIn?: string): Promise<FakeProxy> {
  const seen: string[] = []
  const sockets = new Set<Socket>()
  const wanted = signIn === undefined ? undefined : `Basic ${btoa(signIn)}`
  const denied = (req: IncomingMessage): boolean =>
    wanted !== undefined && req.headers['proxy-authorization'] !== wanted
  const server = createServer((req, res) => {
    seen.push(`${req.method} ${req.url}`)
    if (denied(req)) return res.writeHead(407).end()
    const { pathname, search } = new URL(req.url ?? '')
    const onward = request(
      { port: target, method: req.method, path: pathname + search, headers: req.headers },
      (reply) => reply.pipe(res.writeHead(reply.statusCode ?? 502, reply.headers)),
    )
    return req.pipe(onward.on('error', () => res.destroy()))
  })
  server.on('connection', (socket) => sockets.add(socket))
  server.on('connect', (req: IncomingMessage, socket: Socket) => {
    seen.push(`CONNECT ${req.url}`)
    if (denied(req)) return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    const onward = connect(target, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      socket.pipe(onward).pipe(socket)
    })
    sockets.add(onward)
    onward.on('error', () => socket.destroy())
    return socket.on('error', () => onward.destroy())
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((closed) => server.close(closed))
    },
  }
}
