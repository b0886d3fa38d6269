import t from 'tap'
import { looksSecret, mapStrings, Redactor, refuseMarks } from '../tai.ts'

const SECRET = 'p@ss "wörd"/+1234'
const forms = (value: string) => ({
  raw: value,
  json: JSON.stringify(value),
  'json in json': JSON.stringify(JSON.stringify(value)),
  url: encodeURIComponent(value),
  'url, lower case': encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
  form: new URLSearchParams({ v: value }).toString(),
  base64: Buffer.from(value).toString('base64'),
  'base64 after 1': Buffer.from(`x${value}yz`).toString('base64'),
  'base64 after 2': Buffer.from(`xy${value}z`).toString('base64'),
  base64url: Buffer.from(`key=${value}`).toString('base64url'),
  hex: Buffer.from(value).toString('hex'),
})

t.test('a known value is found however it is written', async (t) => {
  const redactor = new Redactor()
  redactor.add('DB_PASSWORD', SECRET)
  for (const [name, text] of Object.entries(forms(SECRET))) {
    t.match(redactor.known(`a ${text} b`), '[redacted:DB_PASSWORD]', name)
    t.equal(redactor.knows(text), true)
  }
  t.equal(redactor.known('nothing here'), 'nothing here')
  redactor.add('SHORT', 'abc')
  t.equal(redactor.known('abc'), 'abc', 'too short to be told from a word')
})

t.test('a known value that arrives in pieces is found, wherever it is cut', async (t) => {
  const redactor = new Redactor()
  redactor.add('K', SECRET)
  for (const [name, text] of Object.entries(forms(SECRET))) {
    const whole = `begin ${text} end`
    for (let cut = 1; cut < whole.length; cut++) {
      const stream = redactor.stream()
      const out = stream.push(whole.slice(0, cut)) + stream.push(whole.slice(cut)) + stream.end()
      if (out !== redactor.known(whole)) t.fail(`${name} cut at ${cut}: ${out}`)
    }
  }
  const bytewise = redactor.stream()
  t.equal(
    [...`x${SECRET}y`].map((char) => bytewise.push(char)).join('') + bytewise.end(),
    'x[redacted:K]y',
  )
})

t.test(
  'a stream without a secret passes at once, and a character cut in two is put together',
  async (t) => {
    const redactor = new Redactor()
    redactor.add('K', SECRET)
    const stream = redactor.stream()
    t.equal(stream.push('hello '), 'hello ')
    t.equal(stream.push('\ud83d'), '')
    t.equal(stream.push('\ude80'), '🚀')
  },
)

t.test('secrets that nobody told of are known by their shape', async (t) => {
  const redactor = new Redactor()
  const cases: [string, string][] = [
    ['Authorization: Bearer abcdefghijklmnop1234', 'Authorization: Bearer [redacted:bearer]'],
    ['sk-proj-abcdefghijklmnopqrstuvwx', '[redacted:api-key]'],
    [`ghp_${'a1'.repeat(18)}`, '[redacted:github-token]'],
    ['AKIAIOSFODNN7EXAMPLE', '[redacted:aws-key]'],
    ['postgres://bob:hunter2secret@db/x', 'postgres://bob:[redacted:url-password]@db/x'],
    [
      'https://x.test/?a=1&api_key=abcdef123',
      'https://x.test/?a=1&api_key=[redacted:query-secret]',
    ],
    ['-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----', '[redacted:private-key]'],
    ['a -----BEGIN RSA PRIVATE KEY-----\nabc\nMII', 'a [redacted:private-key]'],
    ['eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefghijkl', '[redacted:jwt]'],
    ['a sketch of risk-based tasks', 'a sketch of risk-based tasks'],
  ]
  for (const [text, safe] of cases) t.equal(redactor.redact(text), safe)
})

t.test('marks and names', async (t) => {
  t.throws(() => refuseMarks('it', 'x [redacted:API_KEY] y'), { message: /^it holds a mark/ })
  refuseMarks('it', '[redacted]')
  t.strictSame(
    ['API_KEY', 'github_token', 'DB_PASSWORD', 'TAI_SEAL_PASSPHRASE', 'HOME'].map(looksSecret),
    [true, true, true, true, false],
  )
})

t.test('every string of a value can be changed, names included', async (t) => {
  const twice = mapStrings({ a: [1, null, true, 'b'] }, (text) => text + text)
  t.strictSame(twice, { aa: [1, null, true, 'bb'] })
})

t.test(
  'a value with a secret anywhere is cleaned everywhere, any other is left alone',
  async (t) => {
    const redactor = new Redactor()
    redactor.add('it', SECRET)
    const clean = { a: [1, null, { b: 'text' }], c: '' }
    t.strictSame(redactor.redactIn(clean), clean)
    const token = `sk-${'a'.repeat(24)}`
    const dirty = { [SECRET]: ['x', `key:\n${token}`], c: [[{ d: SECRET }]] }
    t.strictSame(redactor.redactIn(dirty), {
      '[redacted:it]': ['x', 'key:\n[redacted:api-key]'],
      c: [[{ d: '[redacted:it]' }]],
    })
    for (const value of [token, [token], { a: { [token]: 1 } }])
      t.notMatch(JSON.stringify(redactor.redactIn(value)), token)
  },
)

t.test('a secret of several lines is known by each long one', (t) => {
  const redactor = new Redactor()
  redactor.add('codes', 'alpha-code-1234\r\n  bravo-code-1234\n{\n}\nshort\n')
  const cut = '3: alpha-code-1234\n4:     bravo-code-1234\n{ short }'
  t.equal(redactor.redact(cut), '3: [redacted:codes]\n4:     [redacted:codes]\n{ short }')
  t.equal(redactor.redact(Buffer.from('bravo-code-1234').toString('hex')), '[redacted:codes]')
  t.end()
})
