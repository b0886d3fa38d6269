// The pipe, as a person uses it: the built binary in front of a model server. Cases f01, f03, f05
// and f07 of tests/data/cases.jsonl, and what complaints.md lists under pipes and exit codes.
import t from 'tap'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeChat } from './data/fake-chat.mjs'
import { binary } from './fakes/binary.ts'
import { ended, folder, modelEnv, start, tai } from './fakes/tai.ts'

const fake = await startFakeChat({})
t.teardown(() => fake.close())
const env = modelEnv(fake)
const faulty = (fault: string) => ({ ...env, OPENAI_BASE_URL: `${fake.url}/f/${fault}/v1` })
const lastUserText = () => {
  const messages = fake.requests().at(-1)?.body.messages
  const content = messages.findLast((message: { role: string }) => message.role === 'user').content
  return typeof content === 'string'
    ? content
    : content.map((part: { text: string }) => part.text).join('')
}

t.test(
  'f01: standard input is put before the prompt, byte for byte; alone it is the prompt',
  async (t) => {
    const cases: [string[], string, string][] = [
      [['Summarise'], 'line1\r\nline2\n\n', 'line1\r\nline2\n\n\nSummarise'],
      [[], 'only stdin', 'only stdin'],
      [['-'], 'dash', 'dash'],
      [['--', '--looks-like-a-flag'], 'data', 'data\n\n--looks-like-a-flag'],
      [['mcp is what?'], '', 'mcp is what?'],
    ]
    for (const [args, stdin, expected] of cases) {
      const run = await tai(args, { env, stdin })
      t.equal(run.code, 0, args.join(' ') + run.err)
      t.equal(lastUserText(), expected)
      t.equal(run.out, 'The answer is 42 — naïve café, 日本語, 🙂.\n')
      t.equal(run.err, '')
    }
  },
)

t.test('both dialects answer alike', async (t) => {
  const anthropic = {
    ANTHROPIC_BASE_URL: fake.url,
    ANTHROPIC_API_KEY: 'k',
    TAI_MODEL: 'anthropic/fake',
  }
  t.match(await tai(['hi'], { env: anthropic }), {
    code: 0,
    out: 'The answer is 42 — naïve café, 日本語, 🙂.\n',
    err: '',
  })
})

t.test('f03: with nothing to do it is a usage error and no request is made', async (t) => {
  const before = fake.requests().length
  const file = await binary()
  const home = folder()
  for (const script of [
    '"$0" < /dev/null',
    String.raw`printf ' \n' | "$0"`,
    '"$0" <&-',
    '"$0" < /dev/null > "$HOME/out.txt"',
  ]) {
    const child = spawn('sh', ['-c', script, file], {
      env: { ...env, HOME: home, PATH: process.env['PATH'] },
    })
    const run = await ended(child)
    t.equal(run.code, 2, `${script}: ${run.err}`)
    t.match(run.err, /nothing to do.*\n.*--help/)
    t.notMatch(run.err, /\n\s+at /)
  }
  t.equal(readFileSync(join(home, 'out.txt'), 'utf8'), '')
  t.equal(fake.requests().length, before)
})

t.test('f05: a reader that leaves ends the run quietly and stops the model', async (t) => {
  let closed = false
  let sent = 0
  const endless = createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const chunk = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'a short line\n'.repeat(40) } }] })}\n\n`
    const timer = setInterval(() => {
      if ((sent += 1) < 5_000) response.write(chunk)
      else response.end()
    }, 1)
    response.on('close', () => {
      closed = true
      clearInterval(timer)
    })
  })
  endless.listen(0, '127.0.0.1')
  await once(endless, 'listening')
  t.teardown(() => endless.close())
  const port = (endless.address() as { port: number }).port
  const at = {
    ...env,
    OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    HOME: folder(),
    PATH: process.env['PATH'] ?? '',
  }
  const file = await binary()
  const sh = (script: string) =>
    ended(
      spawn('bash', ['-c', script, file], {
        env: at,
        stdio: ['ignore', 'pipe', 'pipe'],
      }) as unknown as ChildProcessWithoutNullStreams,
    )
  const head = await sh('"$0" --no-tools long | head -1; echo "${PIPESTATUS[0]}"')
  t.match(head.out, /^a short line\n(0|141)\n$/)
  t.equal(head.err, '')
  t.equal(closed, true)
  t.ok(sent < 3_000, `${sent} chunks were paid for`)
  const list = await sh('"$0" tools list | true; echo "${PIPESTATUS[0]}"')
  t.match(list.out, /^(0|141)\n$/)
  t.equal(list.err, '')
  const full = await sh('"$0" --no-tools long 2>&1 >/dev/full; echo "$?"')
  t.match(full.out, /^tai: cannot write output.*\n(.*\n)?1\n$/)
  const noStderr = await sh('"$0" tools list 2>&- >/dev/null; echo "$?"')
  t.equal(noStderr.out, '0\n')
})

t.test('exit codes and errors of a model that fails, in both dialects', async (t) => {
  const cases: [string, number, RegExp][] = [
    ['401', 3, /key/i],
    ['403', 3, /Forbidden/],
    ['404model', 3, /does not exist/],
    ['ctx', 3, /too long|context/i],
    ['html', 3, /502/],
    ['json200err', 3, /Provider returned error/],
    ['err-in-stream', 3, /verloaded/],
    ['empty-answer', 3, /empty/],
    ['drop', 3, /./],
  ]
  for (const [fault, code, words] of cases) {
    const run = await tai(['--no-tools', 'hi'], { env: faulty(fault) })
    t.equal(run.code, code, `${fault}: ${run.err}`)
    t.match(run.err, words, fault)
    t.notMatch(run.err, /\n\s+at /, `${fault}: no stack trace`)
    t.notMatch(run.err, 'test-key', `${fault}: no key`)
  }
})

t.test('faults of framing and shape that must not be noticed', async (t) => {
  const quiet =
    'crlf,cr,byte,split-utf8,no-space,comments,event-lines,no-done,gzip,plain-json,bom,null-content,no-usage,usage-empty-choices,reasoning,think-tags,500once,503once,429once'
  for (const fault of quiet.split(',')) {
    fake.reset()
    const run = await tai(['--no-tools', 'hi'], { env: faulty(fault), timeout: 20_000 })
    t.equal(run.out, 'The answer is 42 — naïve café, 日本語, 🙂.\n', `${fault}: ${run.err}`)
    t.equal(run.code, 0, fault)
  }
})

t.test('a stream that goes silent is ended', async (t) => {
  const run = await tai(['--no-tools', 'hi'], { env: { ...faulty('stall'), TAI_STREAM_IDLE: '1' } })
  t.equal(run.code, 3)
  t.match(run.err, /no data for 1|silent|nothing more/)
})

t.test('what a terminal would obey passes a pipe as it is', async (t) => {
  const run = await tai(['--no-tools', 'hi'], { env: faulty('ansi') })
  t.match(run.out, '\u001b]0;owned\u0007')
})

t.test(
  '--json prints one object, on success and on failure; --stream-json ends with it',
  async (t) => {
    const good = await tai(['--json', 'hi'], { env })
    const object = JSON.parse(good.out)
    t.match(object, {
      answer: /42/,
      session: String,
      model: 'openai/fake-model',
      steps: 1,
      exit: 0,
      tools: [],
      usage: { input: 10, output: 12 },
    })
    t.equal(good.out[0], '{')
    t.equal(good.code, 0)
    const bad = await tai(['--json', 'hi'], { env: faulty('401') })
    t.equal(bad.code, 3)
    t.match(JSON.parse(bad.out), {
      answer: '',
      exit: 3,
      error: { message: /key/i, hint: String, code: 3 },
    })
    const none = await tai(['--json', 'hi'], { env: { PATH: '' } })
    t.equal(none.code, 3)
    t.match(JSON.parse(none.out), { exit: 3, error: { code: 3 } })
    const stream = await tai(['--stream-json', 'hi'], { env })
    const lines = stream.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    t.equal(stream.out[0], '{')
    t.match(lines[0], { type: 'start' })
    t.match(lines.at(-1), { type: 'end', answer: /42/, exit: 0 })
    t.equal(
      lines
        .filter((line) => line.type === 'text')
        .map((line) => line.text)
        .join(''),
      object.answer,
    )
  },
)

t.test('--extract prints the first code block, --schema checked JSON', async (t) => {
  fake.queue({ text: 'Here:\n```sh\nls -l\n```\nand\n```\nno\n```' })
  t.equal((await tai(['-x', 'list files'], { env })).out, 'ls -l\n')
  fake.queue({ text: 'No files.' })
  const none = await tai(['-x', 'list files'], { env })
  t.match(none, { code: 0, out: 'No files.\n', err: /no code block/ })
  const dir = folder()
  writeFileSync(
    join(dir, 's.json'),
    JSON.stringify({ type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }),
  )
  fake.queue({ text: 'seven' }, { text: '{"n":"7"}' }, { text: '```json\n{"n": 7}\n```' })
  const run = await tai(['--schema', 's.json', 'how many?'], { env, cwd: dir })
  t.strictSame(JSON.parse(run.out), { n: 7 })
  fake.queue({ text: 'a' }, { text: 'b' }, { text: 'c' })
  const bad = await tai(['--schema', 's.json', 'how many?'], { env, cwd: dir })
  t.equal(bad.code, 6, bad.err)
  t.equal(bad.out, '')
  t.equal((await tai(['--schema', 'none.json', 'x'], { env, cwd: dir })).code, 2)
})

t.test('complaint 1: a pipe that stays silent is named, then left out', async (t) => {
  const at = { ...env, TAI_STDIN_WAIT: '2', HOME: folder(), PATH: process.env['PATH'] ?? '' }
  const began = Date.now()
  const run = await ended(
    spawn('bash', ['-c', 'sleep 8 | { "$0" hi; echo "code $?"; }', await binary()], {
      env: at,
      detached: true,
    }),
    9_000,
  )
  t.match(run.out, /42.*\ncode 0/)
  t.match(run.err, /waiting for stdin/)
  t.match(run.err, /left out/)
  t.ok(Date.now() - began < 30_000)
})

t.test('binary input is refused by name', async (t) => {
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
  const run = await tai(['what is this?'], { env, stdin: png })
  t.equal(run.code, 2)
  t.match(run.err, /stdin is image\/png/)
  const big = await tai(['what is this?'], { env, stdin: 'x'.repeat(9 * 1024 * 1024) })
  t.equal(big.code, 2)
  t.match(big.err, /--file/)
})

t.test('complaint 6: a session goes on, with standard input', async (t) => {
  const home = folder()
  await tai(['my name is Ada'], { env, home })
  await tai(['-c', 'what is it?'], { env, home, stdin: 'more' })
  const { messages } = fake.requests().at(-1)!.body
  t.match(JSON.stringify(messages), /my name is Ada/)
  t.equal(lastUserText(), 'more\n\nwhat is it?')
  const other = await tai(['-c', 'hi'], { env, home, cwd: folder() })
  t.match(other.err, /new one begins/)
})

t.test('SIGINT while the answer streams keeps what came, and exits 130', async (t) => {
  const home = folder()
  const child = await start(['--no-tools', 'tell me'], { env: faulty('stall'), home })
  child.stdin.end()
  const done = ended(child)
  await once(child.stdout, 'data')
  child.kill('SIGINT')
  t.match(await done, { code: 130, out: /^The/ })
  const next = await tai(['-c', 'go on'], {
    env: { ...env, OPENAI_BASE_URL: `${fake.url}/f/strict/v1` },
    home,
  })
  t.equal(next.code, 0, next.err)
  t.match(JSON.stringify(fake.requests().at(-1)?.body.messages), /interrupted/)
})
