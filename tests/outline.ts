// outline.ts: reads tai.ts as a list of sections and says what is out of order.
// It is lexical on purpose: no compiler API, so it works with any TypeScript.
//
//   node tests/outline.ts            list the sections with their sizes
//   node tests/outline.ts --write    rewrite the Contents block in tai.ts

import { readFileSync, writeFileSync } from 'node:fs'

export type Section = {
  slug: string
  title: string
  from: number // the lines of its two markers, counted from 1
  to: number
  names: string[]
  exported: string[]
}

/** Code search on the web reads no larger file: past this, a warning. */
export const WARN_BYTES = 350_000
export const MAX_BYTES = 500_000
export const MIN_ESSAY_LINES = 3

const OPEN = /^\/\/#region §([a-z]+): (\S.*)$/
const CLOSE = /^\/\/#endregion §([a-z]+)$/
const NAME =
  /^(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|const|let|type|interface) (\w+)/
const CONTENTS = /^(?<head>\/\/ Contents .*\n\/\/\n)(?<body>(?:\/\/ {3}.*\n)*)/m

// --- sections ---

export function readSections(source: string): { sections: Section[]; problems: string[] } {
  const sections: Section[] = []
  const problems: string[] = []
  let inside: Section | undefined
  for (const [index, line] of source.split('\n').entries()) {
    const say = (text: string) => problems.push(`${index + 1}: ${text}`)
    const marker = readMarker(line)
    if (marker.kind === 'open') {
      if (inside) say(`§${marker.slug} opens inside §${inside.slug}`)
      if (sections.some((s) => s.slug === marker.slug)) say(`§${marker.slug} opens twice`)
      inside = { ...marker, from: index + 1, to: index + 1, names: [], exported: [] }
      sections.push(inside)
    } else if (marker.kind === 'close') {
      if (inside?.slug === marker.slug) inside.to = index + 1
      else say(`§${marker.slug} closes, but is not open`)
      inside = undefined
    } else if (marker.kind === 'name') {
      if (!inside) say(`${marker.name} stands outside every section`)
      else addName(inside, marker)
    } else if (marker.kind === 'garbled') say('a region line the outline cannot read')
  }
  if (inside) problems.push(`§${inside.slug} never closes`)
  return { sections, problems }
}

/** Once, however many overloads it has. */
function addName(section: Section, { name, exported }: { name: string; exported: boolean }): void {
  if (!section.names.includes(name)) section.names.push(name)
  if (exported && !section.exported.includes(name)) section.exported.push(name)
}

type Marker =
  | { kind: 'open'; slug: string; title: string }
  | { kind: 'close'; slug: string }
  | { kind: 'name'; name: string; exported: boolean }
  | { kind: 'garbled' | 'other' }

function readMarker(line: string): Marker {
  const [, slug = '', title = ''] = OPEN.exec(line) ?? []
  if (slug) return { kind: 'open', slug, title }
  const [, closed] = CLOSE.exec(line) ?? []
  if (closed) return { kind: 'close', slug: closed }
  const [, name] = NAME.exec(line) ?? []
  if (name) return { kind: 'name', name, exported: line.startsWith('export ') }
  return { kind: /^\/\/ ?#(end)?region/.test(line) ? 'garbled' : 'other' }
}

// --- what can be out of order ---

/** Everything wrong with tai.ts by itself. */
export function problems(source: string): string[] {
  const { sections, problems } = readSections(source)
  const bytes = Buffer.byteLength(source)
  if (!CONTENTS.test(source)) problems.push('there is no Contents block')
  else if (writeContents(source) !== source)
    problems.push('Contents is out of date: run `npm run outline`')
  if (bytes > MAX_BYTES) problems.push(`tai.ts is ${bytes} bytes, over ${MAX_BYTES}`)
  return [
    ...problems,
    ...floorProblems(source, sections),
    ...essayProblems(source, sections),
    ...docProblems(source, sections),
    ...tagProblems(source, 'tai.ts', sections),
  ]
}

/** What is worth a word, but no failure. */
export function warnings(source: string): string[] {
  const bytes = Buffer.byteLength(source)
  return bytes > WARN_BYTES ? [`tai.ts is ${bytes} bytes; aim under ${WARN_BYTES}`] : []
}

/** Names used on a floor below the one that declares them. */
function floorProblems(source: string, sections: readonly Section[]): string[] {
  const lines = blank(source).split('\n')
  const problems: string[] = []
  for (const [floor, section] of sections.entries()) {
    const above = new Map(sections.slice(floor + 1).flatMap((s) => s.names.map((n) => [n, s.slug])))
    for (let at = section.from; at < section.to; at++) {
      const names = [...uses(lines[at - 1] ?? '')].filter((name) => above.has(name))
      for (const name of names)
        problems.push(`${at}: §${section.slug} reaches up to ${name} of §${above.get(name)}`)
    }
  }
  return problems
}

/** The names on a line of blanked code, but not those after a dot and not those that are declared
 * as a property or parameter (`{ main: 1 }`, `main?: string`), which are other things of that name. */
function* uses(line: string): Generator<string> {
  for (const found of line.matchAll(/(?<!(?<!\.\.)\.|[\w$#])[A-Za-z_$][\w$]*/g)) {
    const before = line.slice(0, found.index)
    const after = line.slice(found.index + found[0].length)
    const starts = /(?:^|[{,;(])\s*(?:(?:readonly|static|declare|override|private) )*$/.test(before)
    if (!starts || !/^\??:/.test(after)) yield found[0]
  }
}

/** A section opens with its essay: what it is for, its invariants, what is not there. */
function essayProblems(source: string, sections: readonly Section[]): string[] {
  const lines = source.split('\n')
  const problems: string[] = []
  for (const { slug, from } of sections) {
    let at = lines[from] === '' ? from + 1 : from
    let said = 0
    for (; /^\/\/(?!#)/.test(lines[at] ?? ''); at++) if (lines[at] !== '//') said++
    if (said < MIN_ESSAY_LINES)
      problems.push(`${from}: §${slug} opens with ${said} lines of essay, under ${MIN_ESSAY_LINES}`)
  }
  return problems
}

/** An exported function or class says what it promises, directly above. Of overloads, the first. */
function docProblems(source: string, sections: readonly Section[]): string[] {
  const lines = source.split('\n')
  const problems: string[] = []
  const seen = new Set<string>()
  for (const { from, to } of sections)
    for (let at = from; at < to; at++) {
      const [, name] = /^export .*?\b(?:function\*?|class) (\w+)/.exec(lines[at] ?? '') ?? []
      if (name === undefined || seen.has(name)) continue
      seen.add(name)
      if (!endsDocstring(lines, at - 1)) problems.push(`${at + 1}: ${name} has no docstring`)
    }
  return problems
}

function endsDocstring(lines: readonly string[], last: number): boolean {
  if (!lines[last]?.endsWith('*/')) return false
  let first = last
  while (first > 0 && !lines[first]?.startsWith('/*')) first--
  return lines[first]?.startsWith('/**') ?? false
}

/** Tags such as "§store" that name no section. */
export function tagProblems(text: string, file: string, sections: readonly Section[]): string[] {
  const known = new Set(sections.map((s) => s.slug))
  return [...text.matchAll(/§([a-z]+)/g)]
    .filter(([, slug]) => !known.has(slug!))
    .map(([tag]) => `${file}: ${tag} names no section`)
}

/** Sections without a test file of their name, and exports that file does not name. */
export function testProblems(
  sections: readonly Section[],
  read: (slug: string) => string | undefined,
): string[] {
  return sections.flatMap(({ slug, exported }) => {
    const text = read(slug)
    if (text === undefined) return [`§${slug} has no tests/${slug}.test.ts`]
    const words = new Set(text.match(/\w+/g))
    return exported.filter((n) => !words.has(n)).map((n) => `tests/${slug}.test.ts misses ${n}`)
  })
}

// --- Contents ---

export function writeContents(source: string): string {
  const { sections } = readSections(source)
  return source.replace(CONTENTS, (_block, head: string) => head + contents(sections))
}

function contents(sections: readonly Section[]): string {
  const row = (s: Section) => [
    `${`§${s.slug}`.padEnd(11)} ${s.title}`,
    ...oneRow(wrap(s.exported, 16)).map((names) => `  ${names}`),
  ]
  return sections.flatMap((s) => row(s).map((line) => `//   ${line}\n`)).join('')
}

/** Two lines a section, however many names it has. */
function oneRow([first, ...more]: readonly string[]): readonly string[] {
  if (first === undefined) return []
  return [more.length > 0 ? `${first} ...` : first]
}

function wrap(words: readonly string[], width: number): string[] {
  const rows: string[] = []
  for (const word of words) {
    const last = rows.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width)
      rows[rows.length - 1] = `${last} ${word}`
    else rows.push(word)
  }
  return rows
}

// --- code without its prose ---

const PROSE = /\/\/.*|\/\*[\s\S]*?\*\//y
const STRING = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/y
const REGEXP = /\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y
const TEMPLATE = /(?:\\[\s\S]|\$(?!\{)|[^`\\$])*(?:`|\$\{)/y
const WORD = /[\w$]+/y
/** After one of these a slash begins a regular expression; after a value it divides. */
const BEFORE_REGEXP =
  /^(?:[([{,;:=!?&|+\-*%~^<>}]|return|typeof|case|in|of|do|else|void|yield|await|)$/

/** Comments, strings, regular expressions and plain template text become spaces; lines stay lines. */
export function blank(source: string): string {
  const out = source.split('')
  const depths: number[] = [] // one entry per open `${`, counting its inner braces
  let last = '' // the word or sign before, in which a string counts as a quote
  const match = (pattern: RegExp, from: number): number => {
    pattern.lastIndex = from
    return pattern.test(source) ? pattern.lastIndex : 0
  }
  const hide = (from: number, to: number): number => {
    for (let i = from; i < to; i++) if (out[i] !== '\n') out[i] = ' '
    return to
  }
  const value = (from: number, to: number): number => {
    last = '"'
    return hide(from, to)
  }
  const template = (from: number): number => {
    const end = match(TEMPLATE, from + 1) || source.length
    if (source[end - 1] === '`') return value(from, end)
    depths.push(0)
    last = '{'
    return hide(from, end)
  }
  const sign = (at: number): number => {
    last = source[at]!
    if (last === '{' && depths.length > 0) depths[depths.length - 1]! += 1
    if (last === '}' && depths.length > 0) depths[depths.length - 1]! -= 1
    return at + 1
  }
  const step = (at: number): number => {
    const c = source[at]!
    if (/\s/.test(c)) return at + 1
    const prose = match(PROSE, at)
    if (prose) return hide(at, prose)
    if (c === '`') return template(at)
    if (c === '}' && depths.at(-1) === 0) {
      depths.pop()
      return template(at)
    }
    const quoted = match(STRING, at) || (BEFORE_REGEXP.test(last) ? match(REGEXP, at) : 0)
    if (quoted) return value(at, quoted)
    const word = match(WORD, at)
    if (!word) return sign(at)
    last = source.slice(at, word)
    return word
  }
  for (let at = 0; at < source.length; ) at = step(at)
  return out.join('')
}

if (import.meta.main) {
  const path = new URL('../tai.ts', import.meta.url)
  const before = readFileSync(path, 'utf8')
  const source = process.argv.includes('--write') ? writeContents(before) : before
  if (source !== before) writeFileSync(path, source)
  for (const s of readSections(source).sections)
    console.log(String(s.to - s.from + 1).padStart(6), `§${s.slug}`)
  console.log(
    String(source.split('\n').length - 1).padStart(6),
    `lines, ${Buffer.byteLength(source)} bytes`,
  )
  for (const line of [...warnings(source), ...problems(source)]) console.log(line)
}
