import t from 'tap'
import {
  byteLength,
  canonicalJson,
  characterStart,
  clip,
  columns,
  count,
  digest,
  formatBytes,
  formatDuration,
  headBytes,
  isObject,
  jsonLine,
  nearest,
  sha256,
  tailBytes,
  visible,
  visibleLines,
} from '../tai.ts'

t.test('cutting never splits a character', async (t) => {
  const text = 'aé日🙂'
  for (let max = 0; max <= byteLength(text); max++) {
    for (const cut of [headBytes(text, max), tailBytes(text, max)]) {
      t.ok(byteLength(cut) <= max, `${max}`)
      t.notMatch(cut, '\ufffd')
    }
    t.ok(text.startsWith(headBytes(text, max)) && text.endsWith(tailBytes(text, max)))
  }
  t.equal(headBytes(text, 9), 'aé日')
  t.equal(tailBytes(text, 7), '日🙂')
  t.equal(characterStart(Buffer.from(text), 4), 3)
})

t.test('an object is no list and no null', async (t) => {
  t.strictSame([{}, [], null, 'x'].map(isObject), [true, false, false, false])
})

t.test('clip says what it left off', async (t) => {
  t.equal(clip('abcdef', 3), 'abc… (3 more characters)')
  t.equal(clip('ab🙂', 3), 'ab… (2 more characters)')
  t.equal(clip('abc', 3), 'abc')
})

t.test('equal values have equal digests, whatever the order of their keys', async (t) => {
  t.equal(canonicalJson({ b: 1, a: [2, { d: 1, c: null }] }), '{"a":[2,{"c":null,"d":1}],"b":1}')
  t.equal(digest({ a: 1, b: 2 }), digest({ b: 2, a: 1 }))
  t.not(digest([1, 2]), digest([2, 1]))
  t.equal(sha256('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

t.test('what would hide in a line is written out', async (t) => {
  const cases: [string, string][] = [
    ['rm\u001b[2K -rf', 'rm\\e[2K -rf'],
    ['a\nb\tc\r', 'a\\nb\\tc\\r'],
    ['\u202eevil\u200b', '\\u{202e}evil\\u{200b}'],
    ['\u0000\u009b', '\\u{0}\\u{9b}'],
    ['\u{e0041}\u{1f642}', '\\u{e0041}\u{1f642}'],
    ...[0x61c, 0x34f, 0x115f, 0x1160, 0x180e, 0x2800, 0x3164, 0xfff9, 0xfffb, 0xe0000, 0xe007f].map(
      (code): [string, string] => [String.fromCodePoint(code), `\\u{${code.toString(16)}}`],
    ),
    ['naïve 日本語 🙂', 'naïve 日本語 🙂'],
  ]
  for (const [text, shown] of cases) t.equal(visible(text), shown)
  t.equal(visibleLines('a\r\n\tb\u001b[m\n'), 'a\n\tb\\e[m\n')
})

t.test('numbers for people', async (t) => {
  t.strictSame([0, 1_023, 65_536, 1_258_291].map(formatBytes), [
    '0 B',
    '1023 B',
    '64.0 KB',
    '1.2 MB',
  ])
  t.strictSame([340, 2_100, 180_000, 7_200_000, 432_000_000].map(formatDuration), [
    '340 ms',
    '2.1 s',
    '3 min',
    '2 h',
    '5 d',
  ])
  t.strictSame([count(1, 'file'), count(2, 'file')], ['1 file', '2 files'])
})

t.test('columns are aligned and end without spaces', async (t) => {
  t.equal(
    columns([
      ['a', 'bb', 'c'],
      ['aaa', 'b', ''],
    ]),
    'a    bb  c\naaa  b',
  )
  t.equal(columns([]), '')
})

t.test('nearest finds a slip of the finger and nothing else', async (t) => {
  const known = ['model', 'profile', 'read-only']
  t.equal(nearest('modle', known), 'model')
  t.equal(nearest('profil', known), 'profile')
  t.equal(nearest('xyz', known), undefined)
  t.equal(nearest('', known), undefined)
})

t.test('JSON for a terminal holds no byte that a terminal obeys', async (t) => {
  t.equal(jsonLine({ a: 'x\u009b2J\u001b[m é' }), '{"a":"x\\u009b2J\\u001b[m é"}\n')
})
