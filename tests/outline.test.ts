import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import {
  blank,
  MAX_BYTES,
  MIN_ESSAY_LINES,
  problems,
  readSections,
  tagProblems,
  testProblems,
  WARN_BYTES,
  warnings,
  writeContents,
} from './outline.ts'

const read = (path: string): string | undefined => {
  const file = new URL(path, import.meta.url)
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}
const source = read('../tai.ts') ?? ''
const { sections } = readSections(source)

t.test('tai.ts is in order', async (t) => {
  for (const warning of warnings(source)) t.comment(warning)
  t.strictSame(problems(source), [])
})

t.test('each section is tested by a file of its name, which names its exports', async (t) => {
  t.strictSame(
    testProblems(sections, (slug) => read(`${slug}.test.ts`)),
    [],
  )
})

t.test('the documents tag only sections that are there', async (t) => {
  for (const file of ['README.md', 'CONTRIBUTING.md', 'mcp.md'])
    t.strictSame(tagProblems(read(`../${file}`) ?? '', file, sections), [])
})

// A source in order, small enough to spoil by hand: what is planted must not depend on tai.ts.
const sound = `#!/usr/bin/env node
// Contents (written by a command)
//
//   §ground     what the rest stands on
//     LIMIT clip
//   §house      what stands on it
//     House main Plan

import { once } from 'node:events'

//#region §ground: what the rest stands on

// Numbers and text.
// Nothing here reads or writes.
// Not here: doors, because §house has them.

export const LIMIT = 3

/** At most \`max\` characters. */
export function clip(text: string, max = LIMIT): string {
  return \`\${text.slice(0, max)}, cut at \${max}\`
}

//#endregion §ground

//#region §house: what stands on it
//
// One house, which is opened once.
//
// A second opening is refused.
// Not here: the garden.

/** A house with a door. */
export class House {
  readonly open = once
}

/**
 * Opens it.
 */
export async function main(house: House): Promise<string> {
  return clip(String(house))
}

export type Plan = { main: string }

//#endregion §house
`

t.test('a sound source has no problem', async (t) => {
  t.strictSame(problems(sound), [])
  t.strictSame(warnings(sound), [])
})

const spoiled: [string, (s: string) => string, RegExp][] = [
  [
    'upward value',
    (s) => s.replace('text.slice(0, max)', 'new House()'),
    /^21: §ground reaches up to House of §house$/m,
  ],
  ['upward type', (s) => s.replace('text: string', 'text: Plan'), /reaches up to Plan/],
  ['upward in a template', (s) => s.replace('cut at ${max}', '${House}'), /reaches up to House/],
  [
    'upward after a quote in a regular expression',
    (s) => s.replace('text.slice', "text.replace(/['`/]/, '').split(String(main)).slice"),
    /up to main/,
  ],
  ['upward by spreading', (s) => s.replace('text.slice', '[...main].slice'), /reaches up to main/],
  ['stale contents', (s) => s.replace('function clip(', 'function shorten('), /out of date/],
  ['no contents', (s) => s.replace('// Contents', '// Listing'), /no Contents block/],
  ['unclosed region', (s) => s.replace('//#endregion §ground\n', ''), /opens inside §ground/],
  ['last region open', (s) => s.replace('//#endregion §house\n', ''), /§house never closes/],
  ['wrong close', (s) => s.replace('//#endregion §house', '//#endregion §ground'), /is not open/],
  ['twice', (s) => s.replaceAll('§house', '§ground'), /§ground opens twice/],
  ['garbled region', (s) => s.replace('//#region §house:', '// #region house'), /cannot read/],
  [
    'stray symbol',
    (s) => s.replace('//#region §ground', 'let stray = 1\n//#region §ground'),
    /stray/,
  ],
  ['dead tag', (s) => s.replace('because §house', 'because §cellar'), /§cellar names no section/],
  ['too big', (s) => s + '//'.padEnd(MAX_BYTES, ' '), /over 500000/],
  [
    'no essay',
    (s) => s.replace(/\/\/ Numbers[^]*has them\.\n\n/, ''),
    /^11: §ground opens with 0 lines of essay/m,
  ],
  [
    'short essay',
    (s) => s.replace('// Not here: the garden.\n', '//\n//\n'),
    new RegExp(`§house opens with 2 lines of essay, under ${MIN_ESSAY_LINES}`),
  ],
  ['undocumented function', (s) => s.replace(/\/\*\* At most.*\n/, ''), /: clip has no docstring/],
  ['undocumented class', (s) => s.replace('/** A house', '/* A house'), /: House has no docstring/],
  [
    'docstring too far up',
    (s) => s.replace(' */\nexport async', ' */\n\nexport async'),
    /: main has/,
  ],
]
for (const [name, spoil, expected] of spoiled)
  t.test(`noticed: ${name}`, async (t) => {
    t.not(spoil(sound), sound, 'the disorder is planted')
    t.match(problems(spoil(sound)).join('\n'), expected)
  })

t.test('a large source is warned of before it fails', async (t) => {
  const large = sound + '//'.padEnd(WARN_BYTES, ' ')
  t.match(warnings(large).join(), /aim under 350000/)
  t.strictSame(problems(large), [])
})

t.test('untested sections and exports are noticed', async (t) => {
  const { sections } = readSections(sound)
  const files: Record<string, string> = { ground: 'import { LIMIT, clipped } from' }
  t.strictSame(
    testProblems(sections, (slug) => files[slug]),
    ['tests/ground.test.ts misses clip', '§house has no tests/house.test.ts'],
  )
})

t.test('Contents is written from an empty block, and once written stays', async (t) => {
  const empty = sound.replace(/\/\/ {3}§ground[^]*Plan\n/, '')
  t.equal(writeContents(empty), sound)
  t.equal(writeContents(sound), sound)
})

t.test('one docstring is enough for the overloads of a function', async (t) => {
  const first = 'export function clip(text: string): string\n'
  t.strictSame(problems(sound.replace('export function clip', `${first}export function clip`)), [])
})

t.test('prose, strings and regular expressions are not code', async (t) => {
  const code = blank(
    'a // Child\nb `Child ${c(`${d}`)} Child` e "Child" + /[/`]Child/u.test(f) / g',
  )
  t.notMatch(code, /Child/)
  t.match(code, /^a\s+b\s.*c\(.*d.*e\s+\+\s+\.test\(f\) \/ g$/s)
  t.equal(blank('a / b // c').trimEnd(), 'a / b')
  t.equal(blank("'a' / b / c['/']").trim(), '/ b / c[   ]')
  t.equal(blank('`${{ a: 1 }}` + b').trim(), '{ a: 1 }   + b')
})
