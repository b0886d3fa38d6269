import t from 'tap'
import { markdownStream, style, terminalText } from '../tai.ts'

const renderMarkdown = async (text: string, options: Parameters<typeof markdownStream>[0]) => {
  const stream = await markdownStream(options)
  return stream.push(text) + stream.end()
}

const plain = { columns: 40, color: false }
const narrow = (text: string) => renderMarkdown(text, { columns: 16, color: false })
const colored = (text: string) => renderMarkdown(text, { columns: 40, color: true })
const words = (text: string) => text.match(/[\p{L}\p{N}]+/gu) ?? []
// oxlint-disable-next-line no-control-regex -- styles are taken out here
const withoutStyles = (text: string) => text.replace(/\u001b\[\d+m/g, '')

t.test('blocks as they look at 40 columns', async (t) => {
  const table: [name: string, source: string, shown: string][] = [
    ['nothing', ' \n\n', ''],
    ['heading', '# Big *news*\n## small', 'Big news\n\nsmall\n'],
    ['emphasis and code', '**a** _b_ ~~c~~ `d` \\*e\\*', 'a b c d *e*\n'],
    ['link', '[text](http://x.y/z) and <http://a.b>', 'text (http://x.y/z) and http://a.b\n'],
    ['mail', '<me@x.y>', 'me@x.y\n'],
    ['image', '![alt](pic.png)', '![alt](pic.png)\n'],
    [
      'line breaks stay',
      'Roses are red,\nviolets<br>are blue',
      'Roses are red,\nviolets\nare blue\n',
    ],
    ['bullets', '* a\n* b\n  - c', '• a\n• b\n  • c\n'],
    ['numbers', '9. a\n10. b', '9. a\n10. b\n'],
    ['tasks', '- [x] a\n- [ ] b', '• [x] a\n• [ ] b\n'],
    ['loose list', '- a\n\n  b\n- c', '• a\n\n  b\n\n• c\n'],
    ['empty item', '-\n- b', '•\n• b\n'],
    ['quote', '> a\n>\n> > b', '│ a\n│\n│ │ b\n'],
    ['rule', '***', `${'─'.repeat(40)}\n`],
    ['code', '```js\nif (a)\n\tb\n\n  c\n```', '  if (a)\n  \tb\n\n    c\n'],
    ['code with a title', '```ts title=a.ts\nx\n```', '  x\n'],
    ['HTML', '<div>\nx\n</div>', '<div>\nx\n</div>\n'],
    [
      'entities',
      'a &lt; b &amp;&amp; c &quot;d&quot; &nosuch; &valueOf;',
      'a < b && c "d" &nosuch; &valueOf;\n',
    ],
  ]
  for (const [name, source, shown] of table)
    t.equal(await renderMarkdown(source, plain), shown, name)
})

t.test('lines break between words, by width on the screen', async (t) => {
  t.equal(await narrow('one two three four'), 'one two three\nfour\n')
  t.equal(await narrow('a **b**c** d e f g h i j'), 'a bc** d e f g h\ni j\n')
  t.equal(await narrow(`a ${'x'.repeat(35)} b`), `a\n${'x'.repeat(35)}\nb\n`)
  t.equal(await narrow('日本語 の長い テキスト'), '日本語 の長い\nテキスト\n')
  t.equal(await narrow('🙂🙂🙂🙂 🙂🙂🙂🙂 👩‍👩‍👧👩‍👩‍👧'), '🙂🙂🙂🙂\n🙂🙂🙂🙂\n👩‍👩‍👧👩‍👩‍👧\n')
  t.equal(
    await narrow('cafe\u0301 cafe\u0301 cafe\u0301 xx'),
    'cafe\u0301 cafe\u0301 cafe\u0301\nxx\n',
  )
  t.equal(await narrow('- one two three four five'), '• one two three\n  four five\n')
})

t.test('tables are aligned and wrapped', async (t) => {
  const source = '|名前|n|\n|-|-:|\n|a **b**|1|\n|日本|22|'
  t.equal(await renderMarkdown(source, plain), '名前 │  n\n─────┼───\na b  │  1\n日本 │ 22\n')
  const long = `|k|text|\n|-|-|\n|a|${'word '.repeat(12)}|`
  const lines = (await renderMarkdown(long, plain)).trimEnd().split('\n')
  t.equal(lines.length, 4)
  t.ok(lines.every((line) => line.length <= 40))
  const wide = `|${'ab '.repeat(9)}|\n|${'-|'.repeat(9)}\n|${'word '.repeat(9)}|`
  t.equal(words(await renderMarkdown(wide, plain)).length, 18)
})

t.test('colours', async (t) => {
  t.equal(await colored('a **b** c'), `a ${style('b', 'bold')} c\n`)
  t.equal(
    await colored('**b _c d_**'),
    `${style('b', 'bold')} ${style('c', 'bold', 'italic')} ${style('d', 'bold', 'italic')}\n`,
  )
  t.equal(await colored('```js\na b\n```'), `  ${style('a', 'cyan')} ${style('b', 'cyan')}\n`)
})

t.test('no escape sequence survives, however it is written', async (t) => {
  const hostile = [
    'a \u001b]52;c;aGk=\u0007 b \u001b[2Jc',
    '&#27;]52;c;aGk=&#7; &#x9b;31m &#x202e;x',
    '[a](http://x/&#27;[2J\u001b[2J)',
    '`\u001b[31m`',
    '```js\n\u001b]0;t\u0007const\u009b31m\n```',
    '```\u001b[2J title x\ncode\n```',
    '<b\u001b[2J>\u009b5m',
    '|\u001b[2J|\n|-|\n|&#27;[2J|',
    '![\u001bc](\u001bc)',
  ]
  for (const source of hostile) {
    const shown = withoutStyles(await renderMarkdown(source, { columns: 40, color: true }))
    t.equal(terminalText(shown), shown, JSON.stringify(source))
  }
})

const SAMPLE = `# Title of *it*

First paragraph with **bold** words and \`code\`
on two lines.
Setext heading
---
- item one
- item two

  more of two
  1. deep
  2. deeper
- [x] task

> quoted text
goes on
> and on

| Name | Value |
|------|------:|
| alpha | 1 |
| beta | 22 |

\`\`\`js
const answer = 42 // it

function more() {}
\`\`\`
text right after
***
    indented code

~~~
tildes \`\`\`
~~~
<div>
html
</div>

Last words 日本 🙂`

t.test('a stream shows the same as the whole, wherever it is cut', async (t) => {
  for (const color of [true, false]) {
    const options = { columns: 30, color }
    const whole = await renderMarkdown(SAMPLE, options)
    for (let at = 0; at <= SAMPLE.length; at++) {
      const stream = await markdownStream(options)
      const shown = stream.push(SAMPLE.slice(0, at)) + stream.push(SAMPLE.slice(at)) + stream.end()
      if (shown !== whole) t.equal(shown, whole, `cut at ${at}`)
    }
    for (const size of [1, 2, 7]) {
      const stream = await markdownStream(options)
      let shown = ''
      for (let at = 0; at < SAMPLE.length; at += size)
        shown += stream.push(SAMPLE.slice(at, at + size))
      t.equal(shown + stream.end(), whole, `pieces of ${size}`)
    }
    t.equal(withoutStyles(whole), await renderMarkdown(SAMPLE, { columns: 30, color: false }))
  }
})

t.test('what is complete is shown at once', async (t) => {
  const stream = await markdownStream(plain)
  t.equal(stream.push('# He'), '')
  t.equal(stream.push('llo\nText'), 'Hello\n')
  t.equal(stream.push(' goes on\n'), '')
  t.equal(stream.push('\n'), '\nText goes on\n')
  t.equal(stream.push('```\ncode\n'), '')
  t.equal(stream.push('```\n'), '\n  code\n')
  t.equal(stream.push('- a\n\n'), '')
  t.equal(stream.push('- b\n'), '')
  t.equal(stream.push('end\u001b]'), '')
  t.equal(stream.end(), '\n• a\n\n• b\n  end\n')
})

const NASTY: Readonly<Record<string, string>> = {
  'open fence': '```js\nleft open\nfor ever',
  'deep quotes': `${'>'.repeat(5000)} word\n\nword`,
  'deep list': Array.from({ length: 100 }, (_, i) => `${'  '.repeat(i)}- w${i}`).join('\n'),
  brackets: `${'['.repeat(3000)}word`,
  stars: `${'*a '.repeat(3000)}`,
  backticks: Array.from({ length: 300 }, (_, i) => `${'`'.repeat(i % 20)}w${i}`).join(' '),
  'unclosed html': '<div <span word',
  'long line': 'word '.repeat(800),
  'one long word': 'w'.repeat(2000),
  'setext after list': '- a\nb\n===\nc',
  'crossed emphasis': '**a *b** c* __d _e__ f_',
  'table without end': '|a|b|\n|-|-|\n|c',
  'escapes only': '\\\\\\\\ \\a \\# word',
  'CR LF': 'one\r\n\r\ntwo\rthree',
}

t.test('no word is lost, doubled or moved', async (t) => {
  for (const [name, source] of Object.entries({ ...NASTY, sample: SAMPLE.replace('js\n', '\n') })) {
    const expected = words(source.replace(/^```js/, '```')).join(' ')
    const shown = await renderMarkdown(source, { columns: 2001, color: false })
    t.equal(words(shown).join(' '), expected, name)
    const stream = await markdownStream({ columns: 2001, color: false })
    const pieces = source.match(/[^]{1,3}/g) ?? []
    const streamed = pieces.map((piece) => stream.push(piece)).join('') + stream.end()
    t.equal(words(streamed).join(' '), expected, `${name}, streamed`)
  }
})

t.test('a long block does not hold up its stream', async (t) => {
  const start = performance.now()
  const stream = await markdownStream({ columns: 80, color: true })
  let size = stream.push('```js\n').length
  for (let i = 0; i < 2000; i++) size += stream.push('const a = "some line" // of code\n').length
  size += stream.end().length
  t.ok(size > 2000 * 30)
  t.ok(performance.now() - start < 2000)
})
