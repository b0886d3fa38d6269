// The way to the model through proxies and past private certificate authorities, by the built binary:
// complaints 19 and 20. The name model.test is known to no resolver, only to the proxy.
import t, { type Test } from 'tap'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, connect, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { createServer as createSecureServer } from 'node:tls'
import { startModel, type FakeModel } from './fakes/model.ts'
import { startProxy } from './fakes/proxy.ts'
import { ended, folder, start, tai, type Ran } from './fakes/tai.ts'

const portOf = (url: string) => Number(new URL(url).port)

/** A model server that always answers, and a tai that looks for it at `base`. */
async function scene(t: Test) {
  const model = await startModel(() => ({ text: 'through' }))
  t.teardown(() => model.close())
  const run = (base: string, env: Record<string, string>, args: string[] = ['--no-tools', 'hi']) =>
    tai(args, {
      env: { OPENAI_BASE_URL: base, OPENAI_API_KEY: 'test-key', TAI_MODEL: 'openai/m', ...env },
    })
  return { model, run, port: portOf(model.url) }
}

const answered = (t: Test, run: Ran, name: string) =>
  t.match(run, { code: 0, out: 'through\n', err: '' }, name)

function failed(t: Test, run: Ran, words: RegExp, name: string): void {
  t.equal(run.code, 3, name)
  t.match(run.err, words, name)
  t.match(run.err, /^tai: [^\n]+\n {2}[^ \n][^\n]*\n$/, `${name}: one line and one hint`)
  t.equal(run.out, '', name)
}

async function listening(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test(
  'complaint 19: HTTP_PROXY carries a plain request, in either case of the variable',
  async (t) => {
    const { model, run, port } = await scene(t)
    for (const name of ['HTTP_PROXY', 'http_proxy']) {
      await using proxy = await startProxy(port)
      answered(
        t,
        await run('http://model.test/v1', { [name]: `http://127.0.0.1:${proxy.port}` }),
        name,
      )
      t.same(proxy.seen, ['POST http://model.test/v1/chat/completions'], name)
    }
    t.match(model.requests[0]?.headers, { host: 'model.test', authorization: 'Bearer test-key' })
    t.equal(model.requests[0]?.headers['proxy-authorization'], undefined)
  },
)

t.test('a stream comes through the proxy as it is made', async (t) => {
  const model = await startModel([{ text: 'some words and more', hold: true }])
  t.teardown(() => model.close())
  await using proxy = await startProxy(portOf(model.url))
  const env = {
    OPENAI_BASE_URL: 'http://model.test/v1',
    TAI_MODEL: 'openai/m',
    HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
  }
  const child = await start(['--no-tools', '--raw', 'hi'], { env })
  child.stdin.end()
  const done = ended(child)
  const [first] = await once(child.stdout, 'data')
  t.match(String(first), /^some/)
  child.kill('SIGINT')
  await done
})

t.test('a proxy that wants a password gets it, and no error tells it', async (t) => {
  const { model, run, port } = await scene(t)
  await using proxy = await startProxy(port, 'me:p@ss word')
  const at = (signIn: string) => ({ HTTP_PROXY: `http://${signIn}127.0.0.1:${proxy.port}` })
  answered(t, await run('http://model.test/v1', at('me:p%40ss%20word@')), 'the right one')
  const before = model.requests.length
  for (const signIn of ['', 'me:hush-hush@']) {
    const denied = await run('http://model.test/v1', at(signIn), ['-v', '--no-tools', 'hi'])
    t.equal(denied.code, 3)
    t.match(denied.err, /proxy/)
    t.notMatch(denied.err, /hush/)
  }
  t.equal(model.requests.length, before)
})

t.test('NO_PROXY leaves hosts out, by name, domain, port and star', async (t) => {
  const { run, port } = await scene(t)
  const cases: [string, boolean][] = [
    ['model.test', false],
    ['MODEL.TEST', false],
    ['other.test, model.test', false],
    ['.test', false],
    ['test', false],
    ['*', false],
    ['model.test:80', false],
    ['model.test:81', true],
    ['del.test', true],
    ['other.test', true],
    ['', true],
  ]
  for (const [list, proxied] of cases) {
    await using proxy = await startProxy(port)
    const result = await run('http://model.test/v1', {
      HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
      NO_PROXY: list,
    })
    t.equal(proxy.seen.length, proxied ? 1 : 0, `NO_PROXY=${list}`)
    if (proxied) answered(t, result, list)
    else t.match(result, { code: 3, err: /model\.test/ }, list) // which nobody knows
  }
})

t.test('loopback is never proxied', async (t) => {
  const { run, port } = await scene(t)
  await using proxy = await startProxy(port)
  const via = `http://127.0.0.1:${proxy.port}`
  const env = {
    HTTP_PROXY: via,
    HTTPS_PROXY: via,
    http_proxy: via,
    https_proxy: via,
    ALL_PROXY: via,
    NO_PROXY: '',
  }
  for (const host of ['127.0.0.1', 'localhost', '127.0.0.1.']) {
    const result = await run(`http://${host}:${port}/v1`, env)
    if (host !== '127.0.0.1.') answered(t, result, host)
  }
  t.same(proxy.seen, [])
})

t.test('a proxy that is not there, or no proxy at all, is named', async (t) => {
  const { run } = await scene(t)
  const closed = createServer()
  const port = await listening(t, closed)
  closed.close()
  failed(
    t,
    await run('http://model.test/v1', { HTTP_PROXY: `http://127.0.0.1:${port}` }),
    /proxy.*127\.0\.0\.1/,
    'a closed port',
  )
  failed(
    t,
    await run('https://model.test/v1', { HTTPS_PROXY: `http://127.0.0.1:${port}` }),
    /proxy.*127\.0\.0\.1/,
    'a closed port, for https',
  )
  failed(
    t,
    await run('http://model.test/v1', { HTTP_PROXY: 'socks5://127.0.0.1:1' }),
    /HTTP_PROXY|proxy/,
    'another protocol',
  )
})

const skip = spawnSync('openssl', ['version']).status === 0 ? false : 'no openssl here'

/** A CA of our own, and a TLS server for 127.0.0.1 and model.test in front of the model. */
async function secure(t: Test, model: FakeModel): Promise<{ ca: string; port: number }> {
  const dir = folder()
  const openssl = (line: string) =>
    execFileSync('openssl', line.split(' '), { cwd: dir, stdio: 'pipe' })
  const ec = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
  writeFileSync(join(dir, 'ext'), 'subjectAltName=IP:127.0.0.1,DNS:model.test\n')
  openssl(`req -x509 ${ec} -keyout ca.key -out ca.pem -subj /CN=tai-test-ca -days 2`)
  openssl(`req -new ${ec} -keyout key.pem -out csr.pem -subj /CN=127.0.0.1`)
  openssl('x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -out cert.pem -days 2 -extfile ext')
  const read = (name: string) => readFileSync(join(dir, name))
  const server = createSecureServer({ key: read('key.pem'), cert: read('cert.pem') }, (socket) => {
    const onward = connect(portOf(model.url), '127.0.0.1')
    socket.on('error', () => onward.destroy()).pipe(onward)
    onward.on('error', () => socket.destroy()).pipe(socket)
  })
  server.on('tlsClientError', () => {}) // a client that does not trust us
  return { ca: join(dir, 'ca.pem'), port: await listening(t, server) }
}

t.test(
  'complaint 20: a private CA is trusted where NODE_EXTRA_CA_CERTS or the system says so',
  { skip },
  async (t) => {
    const { model, run } = await scene(t)
    const { ca, port } = await secure(t, model)
    const base = `https://127.0.0.1:${port}/v1`
    answered(t, await run(base, { NODE_EXTRA_CA_CERTS: ca }), 'NODE_EXTRA_CA_CERTS')
    answered(t, await run(base, { SSL_CERT_FILE: ca }), 'a CA of the system')
    const before = model.requests.length
    failed(t, await run(base, {}), /127\.0\.0\.1:\d+.*CA\n.*NODE_EXTRA_CA_CERTS/, 'unknown')
    failed(
      t,
      await run(`https://localhost:${port}/v1`, { NODE_EXTRA_CA_CERTS: ca }),
      /another name/,
      'a certificate for another name',
    )
    const missing = await run(base, { NODE_EXTRA_CA_CERTS: `${ca}.gone` })
    t.equal(missing.code, 3)
    t.match(missing.err, /NODE_EXTRA_CA_CERTS/)
    t.notMatch(missing.err, /\n\s+at /)
    const lax = await run(base, { NODE_TLS_REJECT_UNAUTHORIZED: '0' })
    t.comment(`NODE_TLS_REJECT_UNAUTHORIZED=0 exits ${lax.code}: ${lax.err}`)
    t.equal(
      model.requests.length - before,
      lax.code === 0 ? 1 : 0,
      'the key went to nobody unknown',
    )
  },
)

t.test('HTTPS_PROXY opens a tunnel; the private CA is asked for inside it', { skip }, async (t) => {
  const { model, run } = await scene(t)
  const { ca, port } = await secure(t, model)
  for (const name of ['HTTPS_PROXY', 'https_proxy']) {
    await using proxy = await startProxy(port, 'me:pw')
    const env = { [name]: `http://me:pw@127.0.0.1:${proxy.port}` }
    answered(t, await run('https://model.test/v1', { ...env, NODE_EXTRA_CA_CERTS: ca }), name)
    t.same(proxy.seen, ['CONNECT model.test:443'], name)
    answered(
      t,
      await run('https://model.test/v1', { ...env, SSL_CERT_FILE: ca }),
      'a CA of the system',
    )
    failed(
      t,
      await run('https://model.test/v1', env),
      /model\.test.*CA\n.*NODE_EXTRA_CA_CERTS/,
      'an unknown CA',
    )
  }
  await using proxy = await startProxy(port)
  await run('https://model.test/v1', {
    HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
    NODE_EXTRA_CA_CERTS: ca,
  })
  t.same(proxy.seen, [], 'HTTP_PROXY is for http')
})

t.test('the other dialect and the list of models go the same way', async (t) => {
  const { model, run, port } = await scene(t)
  await using proxy = await startProxy(port)
  const env = { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` }
  const anthropic = {
    ANTHROPIC_BASE_URL: 'http://model.test',
    ANTHROPIC_API_KEY: 'k',
    TAI_MODEL: 'anthropic/m',
  }
  answered(t, await run('', { ...env, ...anthropic }), 'anthropic')
  const list = await run('http://model.test/v1', env, ['model', 'list', '--json'])
  t.match(JSON.parse(list.out), { models: [{ id: 'fake-model' }] })
  t.same(proxy.seen, ['POST http://model.test/v1/messages', 'GET http://model.test/v1/models'])
  t.equal(model.requests.length, 1)
})
