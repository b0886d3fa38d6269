// tai in front of servers that others wrote.
import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { peer } from './fakes/peers.ts'
import { folder, tai } from './fakes/tai.ts'

const RULES = `
streaming: { chunkSize: 7, chunkIntervalMs: 1 }
rules:
  - path: /v1/chat/completions
    match: "contains(body.messages[-1].content, 'error-401')"
    response: { status: 401, content: '{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}' }
  - path: /v1/chat/completions
    match: "contains(body.messages[-1].content, 'write a commit message')"
    response: { status: 200, content: '{"choices":[{"message":{"role":"assistant","content":"store: count changes, not entries"},"finish_reason":"stop"}]}' }
  - path: /v1/models
    match: "@"
    response: { status: 200, content: '{"data":[{"id":"text-embedding-3"},{"id":"gpt-4"}]}' }
`

/** A free port of this machine. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

async function startMockLlm(): Promise<{ url: string; stop: () => void }> {
  const entry = await peer('@dwmkerr/mock-llm/dist/main.js')
  const dir = folder()
  writeFileSync(join(dir, 'rules.yaml'), RULES)
  const port = await freePort()
  const env = { ...process.env, HOST: '127.0.0.1', PORT: String(port) }
  const child = spawn(process.execPath, [entry, '--config', join(dir, 'rules.yaml')], {
    env,
    cwd: dir,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const up = Promise.withResolvers<void>()
  child.stdout.on('data', (text) => /server running/.test(String(text)) && up.resolve())
  await up.promise
  return { url: `http://127.0.0.1:${port}/v1`, stop: () => child.kill() }
}

t.test(
  'a diff in the pipe, a commit message out of it, by a server that others wrote',
  async (t) => {
    const server = await startMockLlm()
    t.teardown(server.stop)
    const work = folder()
    const git = (...args: string[]) =>
      spawnSync('git', args, { cwd: work, encoding: 'utf8' }).stdout
    git('init', '-q')
    writeFileSync(join(work, 'a.txt'), 'one\n')
    git('add', '.')
    const diff = git('diff', '--staged')
    t.match(diff, /\+one/)
    const env = { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'k', TAI_MODEL: 'openai/gpt-4' }
    t.match(await tai(['write a commit message'], { env, cwd: work, stdin: diff }), {
      code: 0,
      out: 'store: count changes, not entries\n',
      err: '',
    })
    t.match(await tai(['error-401'], { env }), { code: 3, out: '', err: /Incorrect API key/ })
    const { TAI_MODEL: _none, ...unnamed } = env
    t.match(await tai(['please write a commit message'], { env: unnamed }), {
      code: 0,
      out: /^store:/,
      err: /using openai\/gpt-4/,
    })
  },
)
