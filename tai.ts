#!/usr/bin/env node
// tai: a terminal AI agent in one file. MIT license; see LICENSE.
//
// How to read this file. Sections are floors: a section may name only itself and
// the sections above it, so a reader going down never meets a forward reference,
// and each floor is tested without the ones that stand on it. To jump, search
// for a section's tag, such as "§store".
//
// Three common changes and where they begin:
//   add a tool        one row in its family (§files, §shell, §git, §web, §notes, §asking)
//   add a provider    one row of PROVIDERS in §models
//   change a limit    one constant in §caps
//
// Contents (written by `npm run outline`, checked by tests/outline.test.ts)
//
//   §caps       every limit in the program

import * as fs from 'node:fs'
import * as path from 'node:path'

//#region §caps: every limit in the program
//
// A number that decides anything stands here, with its unit and with what
// happens when it is met. A bare number elsewhere is a mistake, so that a person
// who asks "why did it stop there?" has one place to look.
//
// 1. Times are milliseconds, sizes are bytes of UTF-8, unless the name says more.
// 2. A limit that a user may change is the default of a row in §config.
// Not here: limits that a standard fixes (they stand beside its code).

export const VERSION = '0.1.0'

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const KB = 1_024
export const MB = 1_024 * KB

/** Exit codes: what a script can tell apart. An uncaught bug is `failed`. */
export const EXIT = {
  answered: 0,
  failed: 1,
  usage: 2,
  model: 3, // the model could not be reached, or refused (sign-in, quota, network)
  limit: 4, // a step or cost limit was met before an answer
  denied: 5, // an approval was denied and no answer came
  invalid: 6, // input or output failed validation
  interrupted: 130, // 128 + SIGINT, as shells count
} as const

export const MCP_RESULT_MAX = 64 * KB // a larger tool result becomes a vault record; the model gets its id
export const MCP_HTTP_MAX_BODY = 10 * MB // a larger HTTP body ends the exchange with an error

export const STDIN_MAX = 8 * MB // more than this on stdin is refused: --file is for that
export const STDIN_NOTICE = 1 * SECOND // a silent pipe beside a prompt is named on stderr after this
export const STDIN_WAIT = 10 * SECOND // and left out after this
export const STDIN_SOCKET_WAIT = 250 // an inherited socket or device that stays silent is left out after this

export const STREAM_IDLE = 90 * SECOND // a model stream silent for longer ends with an error
export const CHAT_CONNECT_TIMEOUT = 20 * SECOND // no connection to a model in this time: unreachable
export const CHAT_RETRIES = 3 // a failed request is sent again this often, then given up
export const CHAT_BACKOFF = 500 // the first pause between tries; doubles, with jitter
export const CHAT_RETRY_AFTER_MAX = 60 * SECOND // a server that asks for a longer pause is given up at once
export const CHAT_MAX_TOKENS = 16_384 // output tokens asked for where a dialect demands a number
export const CHAT_EVENT_MAX = 8 * MB // one server-sent event over this ends the stream
export const CHAT_ERROR_MAX = 2 * KB // so much of a provider's own words is shown
export const LOCAL_PROBE = 300 // a local model server that does not answer in this time is not there
export const MODEL_LIST_TIMEOUT = 10 * SECOND // asking a provider for its models
export const CONTEXT_DEFAULT = 128_000 // tokens; assumed where a model's window is unknown
export const CONTEXT_FULL = 0.8 // share of the window at which the history is compacted
export const CONTEXT_KEEP = 0.3 // share of the window that compaction leaves in full

export const AGENT_MAX_STEPS = 50 // requests to the model in one turn; then exit 4
export const AGENT_PARALLEL = 8 // read-only tools of one step that run at the same time

export const SHELL_OUTPUT_MAX = 4 * MB // captured per stream of a command; the middle is left out and said so
export const SHELL_STOP_GRACE = 2 * SECOND // between each rung of the ladder that ends a child
export const PROCESS_OUTPUT_MAX = 1 * MB // kept of a background process; older output is dropped and counted
export const PROCESS_MAX = 16 // background processes of one session; the next is refused
export const GIT_TIMEOUT = 60 * SECOND // one git command
export const TOOL_TEXT_MAX = 10 * MB // a file larger than this is read by range or not at all
export const UNDO_FILE_MAX = 16 * MB // a larger file is not kept in the undo journal, so changing it is refused
export const UNDO_STEPS_MAX = 200 // changes kept per session; older ones can no longer be undone
export const GREP_FILE_MAX = 2 * MB // larger files are passed over by grep, and counted
export const WALK_MAX = 100_000 // entries looked at by one glob, grep or list; then it says it stopped
export const WEB_TIMEOUT = 30 * SECOND // one page
export const WEB_REDIRECTS = 5 // then the page counts as unreachable

export const APPROVAL_WAIT = 60 * SECOND // a question without an answer for this long is a denial
export const GRANT_SESSION_TTL = 8 * HOUR // a grant for the session ends after this

export const STORE_BUSY = 10 * SECOND // waiting for another process that writes to the vault
export const SECRET_MIN = 6 // characters; a shorter value is too common to be taken out of texts
export const RECORD_PREVIEW = 2 * KB // of a spilled result shown to the model beside the record's id
export const AUDIT_ANCHORS = 64 // heads of other chains that a chain's first row carries

//#endregion §caps

//#region §shapes: the words of the program, as types
//
// What passes between floors: messages, tool calls, events, and the outside
// world. Only types; nothing here runs.
//
// 1. A message is neutral: dialects (§dialects) turn it into a provider's words.
// 2. Every tool call gets exactly one tool message with its id, before anything else.
// 3. Alternatives are unions on one field, switched without a default.

export type Json = null | boolean | number | string | readonly Json[] | JsonObject
export type JsonObject = { readonly [key: string]: Json }

/** JSON Schema 2020-12 as tools write it; an object, because every tool takes named arguments. */
export type JsonSchema = JsonObject

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'image'; readonly mime: string; readonly base64: string }

/** What a provider wants back unchanged with the message that carried it. */
export type Reasoning = {
  readonly text: string
  readonly signature?: string // Anthropic: proves the text is the model's own
  readonly sealed?: string // Anthropic redacted_thinking: opaque data
}

export type ToolCall = {
  readonly id: string
  readonly name: string
  readonly args: JsonObject
  readonly problem?: string // why this call must not run: its arguments are no JSON, or were cut off
  readonly extra?: JsonObject // fields a provider wants back with the call
}

export type UserMessage = { readonly role: 'user'; readonly parts: readonly Part[] }
export type SystemMessage = { readonly role: 'system'; readonly text: string }
export type AssistantMessage = {
  readonly role: 'assistant'
  readonly text: string
  readonly reasoning?: readonly Reasoning[]
  readonly calls: readonly ToolCall[]
  readonly state: 'complete' | 'cut' | 'interrupted' | 'failed'
}
export type ToolMessage = {
  readonly role: 'tool'
  readonly id: string
  readonly name: string
  readonly text: string
  readonly isError: boolean
  readonly images?: readonly { readonly mime: string; readonly base64: string }[]
}
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/** Tokens, as the provider counted them; `cached` is the part of `input` read from its cache. */
export type Usage = { readonly input: number; readonly output: number; readonly cached: number }

export type StopReason = 'end' | 'calls' | 'length' | 'filter'

/** What a chat stream says while it runs; the whole answer is its return value. */
export type ChatEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'notice'; readonly text: string }

export type ChatReply = {
  readonly message: AssistantMessage
  readonly stop: StopReason
  readonly usage: Usage | undefined
  readonly cost: number | undefined // US dollars, where the provider or a price row gives it
}

/** A tool as the model is told of it. */
export type ToolSchema = {
  readonly name: string
  readonly description: string
  readonly parameters: JsonSchema
}

/** Seed 002's names beside the standard hints of MCP 2025-11-25 (ToolAnnotations). */
export type Annotations = {
  readonly readOnly: boolean
  readonly destructive: boolean
  readonly idempotent: boolean
  readonly stateful: boolean
  readonly securityTier: Tier
  readonly readOnlyHint: boolean
  readonly destructiveHint: boolean
  readonly idempotentHint: boolean
  readonly openWorldHint: boolean
}
export type Tier = 'Low' | 'Medium' | 'High' | 'Critical'
export type Mode = 'read-only' | 'workspace-write' | 'prompt' | 'allow' | 'danger-full-access'

/** What a tool gives back. `isError`: it ran and failed, and the model should read why. */
export type ToolOutput = {
  readonly text: string
  readonly isError?: boolean
  readonly structured?: Json
  readonly images?: readonly { readonly mime: string; readonly base64: string }[]
}

/** What happens in a turn, in order; the front shows it, `--stream-json` prints it. */
export type AgentEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'call'; readonly call: ToolCall; readonly digest: string }
  | {
      readonly kind: 'result'
      readonly call: ToolCall
      readonly reply: ToolMessage
      readonly ms: number
    }
  | { readonly kind: 'usage'; readonly usage: Usage; readonly cost: number | undefined }
  | { readonly kind: 'notice'; readonly text: string }

/** The outside, handed in: tests pass a clock that stands still and ids that count. */
export interface World {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: NodeJS.Platform
  readonly cwd: string
  readonly home: string // TAI_HOME, absolute: vault.db, config.toml, run/
  readonly pid: number
  now(): number // milliseconds since 1970
  randomBytes(size: number): Buffer
}

/** Asks the person in front of the terminal. With nobody there, `available` is false. */
export interface Prompter {
  readonly available: boolean
  /** One answer out of `choices` (their keys), or undefined: no answer in time, EOF, Ctrl-C. */
  choose(
    question: string,
    choices: readonly Choice[],
    signal: AbortSignal,
  ): Promise<string | undefined>
  /** A line of text; `secret` is not echoed. Undefined: no answer. */
  ask(
    question: string,
    options: { secret?: boolean },
    signal: AbortSignal,
  ): Promise<string | undefined>
}
export type Choice = { readonly key: string; readonly label: string }

//#endregion §shapes

//#region §errors: what can go wrong, and how the user hears of it
//
// One root, a closed set of kinds. A kind exists only where some caller acts on
// it; everything else is a plain TaiError with a good message and a hint.
//
// 1. The message says what is wrong and where; the hint says what to do. Neither
//    holds a stack trace, a secret or a control character that was not made visible.
// 2. `cause` keeps what was caught; `-v` shows that chain, nothing else does.
// 3. A program that is not a TaiError is a bug of tai and is reported as one.

export type ErrorOptions = { hint?: string | undefined; cause?: unknown }

/** An error whose message is fit to show. `hint` says what to do next. */
export class TaiError extends Error {
  readonly exitCode: number = EXIT.failed
  readonly hint: string | undefined
  constructor(message: string, options: ErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.name = new.target.name
    this.hint = options.hint
  }
}

/** The command line was wrong: exit 2, as shells expect. */
export class UsageError extends TaiError {
  override readonly exitCode = EXIT.usage
}

/** A step or cost limit was met before an answer. */
export class LimitError extends TaiError {
  override readonly exitCode = EXIT.limit
}

/** The user, or the policy speaking for the user, said no. */
export class DeniedError extends TaiError {
  override readonly exitCode = EXIT.denied
}

/** Input or output failed validation. */
export class InvalidError extends TaiError {
  override readonly exitCode = EXIT.invalid
}

/** The person, or a signal, ended the work. */
export class InterruptedError extends TaiError {
  override readonly exitCode = EXIT.interrupted
}

/** The vault's seal is locked: nothing that needs a secret may go on. */
export class SealedError extends TaiError {}

export type ModelErrorOptions = ErrorOptions & {
  status?: number | undefined // HTTP status, where there was one
  retryAfter?: number | undefined // milliseconds the provider asked to wait
  kind?: 'unreachable' | 'refused' | 'context' | 'broken' | 'busy'
}

/**
 * The model could not be reached, refused, or broke off. `kind` decides what the
 * caller does: `busy` may be tried again, `context` may be compacted, the rest end the turn.
 */
export class ModelError extends TaiError {
  override readonly exitCode = EXIT.model
  readonly status: number | undefined
  readonly retryAfter: number | undefined
  readonly kind: NonNullable<ModelErrorOptions['kind']>
  constructor(message: string, options: ModelErrorOptions = {}) {
    super(message, options)
    this.status = options.status
    this.retryAfter = options.retryAfter
    this.kind = options.kind ?? 'broken'
  }
}

/** The message of anything that was thrown, on one line. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error)
  return text.replace(/\s*\n\s*/g, ' ')
}

/**
 * For people: one line that says what went wrong, one that says what to do, and
 * with `verbose` one more for each cause. Never a stack trace.
 */
export function explain(error: unknown, verbose = false): string {
  const known = error instanceof TaiError
  const lines = [known ? messageOf(error) : `internal error: ${messageOf(error)}`]
  if (known && error.hint !== undefined) lines.push(`  ${error.hint}`)
  if (!known) lines.push('  this is a bug of tai; `-v` shows its cause, please report it')
  if (verbose) lines.push(...causes(error).map((cause) => `  because: ${messageOf(cause)}`))
  return lines.join('\n')
}

function causes(error: unknown): unknown[] {
  const found: unknown[] = []
  for (let at = error; at instanceof Error && at.cause !== undefined && !found.includes(at.cause); )
    found.push((at = at.cause))
  return found
}

/** The `code` of a system error (ENOENT, EACCES, SQLITE_BUSY...), or ''. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : ''
}

//#endregion §errors

//#region §text: strings in, strings out
//
// The few operations on text that more than one section needs.
//
// 1. Cutting never splits a character, and always says what it left off.
// 2. What comes from outside and is shown to a person goes through `visible`:
//    a control character is written out, so nothing hides in a line.
// 3. One digest for everything that compares: SHA-256 over canonical JSON.

/** Number of bytes of the text in UTF-8. */
export const byteLength = (text: string): number => Buffer.byteLength(text)

/** The longest start of `text` that fits into `max` bytes of UTF-8 without splitting a character. */
export function headBytes(text: string, max: number): string {
  if (text.length * 3 <= max || byteLength(text) <= max) return text
  const bytes = Buffer.from(text)
  return bytes.toString('utf8', 0, characterStart(bytes, max))
}

/** The longest end of `text` that fits into `max` bytes of UTF-8 without splitting a character. */
export function tailBytes(text: string, max: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= max) return text
  let from = bytes.length - max
  while (from < bytes.length && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1
  return bytes.toString('utf8', from)
}

/** The last position at or before `at` where a character of UTF-8 begins. */
export function characterStart(bytes: Uint8Array, at: number): number {
  let start = Math.min(at, bytes.length)
  while (start > 0 && start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start -= 1
  return start
}

/** At most `max` characters on one line, saying how many were left off. For messages, not for data. */
export function clip(text: string, max: number): string {
  if (text.length <= max) return text
  const cut = text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '')
  return `${cut}… (${text.length - cut.length} more characters)`
}

/** JSON with sorted keys and no spaces, so equal values have equal text (RFC 8785's order). */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, node: unknown) =>
    node !== null && typeof node === 'object' && !Array.isArray(node)
      ? Object.fromEntries(Object.entries(node).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : node,
  )
}

/** SHA-256 in hex. */
export function sha256(data: string | Uint8Array): string {
  return process.getBuiltinModule('node:crypto').createHash('sha256').update(data).digest('hex')
}

/** SHA-256 of a value's canonical JSON, in hex: what approvals, pins and audit rows compare. */
export const digest = (value: unknown): string => sha256(canonicalJson(value))

// oxlint-disable-next-line no-control-regex -- control characters are the subject here
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\u001b': '\\e',
}

/** Control characters, C1 bytes and invisible direction marks written out: what is shown is what runs. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => {
    const known = SHORT_ESCAPES[char]
    return known ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`
  })
}
/** As `visible`, but lines stay lines and tabs stay tabs: for text of many lines on a terminal. */
export const visibleLines = (text: string): string =>
  text
    .replace(/\r\n/g, '\n')
    .split(/(\n|\t)/)
    .map((part) => (/^[\n\t]$/.test(part) ? part : visible(part)))
    .join('')

/** "1 file", "2 files". */
export const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`

/** Bytes for people: "812 B", "64.0 KB", "1.2 MB". */
export function formatBytes(bytes: number): string {
  if (bytes < KB) return `${bytes} B`
  return bytes < MB ? `${(bytes / KB).toFixed(1)} KB` : `${(bytes / MB).toFixed(1)} MB`
}

/** Milliseconds for people: "340 ms", "2.1 s", "3 min", "2 h", "5 d". */
export function formatDuration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`
  if (ms < HOUR) return `${Math.round(ms / MINUTE)} min`
  return ms < 24 * HOUR ? `${Math.round(ms / HOUR)} h` : `${Math.round(ms / (24 * HOUR))} d`
}

/** Rows as aligned columns, two spaces between them; the last column is never padded. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths: number[] = []
  for (const row of rows)
    row.forEach((cell, i) => (widths[i] = Math.max(widths[i] ?? 0, cell.length)))
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0))).join('  ')
  return rows.map((row) => line(row).trimEnd()).join('\n')
}

/** The known word closest to a mistyped one, or undefined when none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const scored = known.map((name) => ({ name, far: editDistance(word, name) }))
  const best = scored.toSorted((a, b) => a.far - b.far)[0]
  return best !== undefined && best.far <= Math.max(1, Math.floor(word.length / 3))
    ? best.name
    : undefined
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next[j] = Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1)
    }
    row = next
  }
  return row[b.length] ?? 0
}

//#endregion §text

//#region §json: from unknown to typed, at the border
//
// Everything that arrives (a file, a reply, a row) is `unknown` until a Reader
// has looked at it. Its errors name the place, so a broken file can be mended.
//
// 1. A Reader never coerces: "1" is not a number.
// 2. Optional means absent or null; anything else of the wrong type is an error.
// Not here: JSON Schema of tool arguments (§toolbox), which is a library's work.

/** Whether a value is an object with named members (no array, no null). */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Parses text that ought to be a JSON object; undefined when it is anything else. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? (value as JsonObject) : undefined
  } catch {
    return undefined // not JSON: the caller decides what that means
  }
}

/** Reads one value of unknown shape; `where` names it in errors. Throws InvalidError. */
export class Reader {
  readonly value: unknown
  readonly where: string
  constructor(value: unknown, where: string) {
    this.value = value
    this.where = where
  }

  /** The member `key` of an object, absent or not. */
  at(key: string): Reader {
    const inner = isObject(this.value) ? this.value[key] : undefined
    return new Reader(inner, `${this.where}.${key}`)
  }

  get absent(): boolean {
    return this.value === undefined || this.value === null
  }

  string(): string {
    return typeof this.value === 'string' ? this.value : this.#wrong('a string')
  }

  number(): number {
    return typeof this.value === 'number' && Number.isFinite(this.value)
      ? this.value
      : this.#wrong('a number')
  }

  boolean(): boolean {
    return typeof this.value === 'boolean' ? this.value : this.#wrong('true or false')
  }

  object(): JsonObject {
    return isObject(this.value) ? (this.value as JsonObject) : this.#wrong('an object')
  }

  list(): Reader[] {
    if (!Array.isArray(this.value)) return this.#wrong('a list')
    return this.value.map((item: unknown, i) => new Reader(item, `${this.where}[${i}]`))
  }

  optional<T>(read: (reader: Reader) => T): T | undefined {
    return this.absent ? undefined : read(this)
  }

  #wrong(wanted: string): never {
    throw new InvalidError(`${this.where} is ${kindOf(this.value)}, not ${wanted}`)
  }
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'missing'
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : typeof value
}

//#endregion §json

//#region §waiting: deadlines and ordered retreats
//
// Every wait in the program goes through here, so every wait has an end.
//
// 1. A timer never outlives its wait, and never keeps the process alive alone.
// 2. An aborted wait rejects with the signal's reason at once.
// Not here: retry policies; they live with what is retried.

/** Resolves after `ms`; rejects with the signal's reason when that is aborted first. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const stop = () => reject(signal?.reason)
  signal?.addEventListener('abort', stop, { once: true })
  try {
    await promise
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

/** Whether `work` settled within `ms`. Never rejects: the caller asks, then looks. */
export async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<false>()
  const timer = setTimeout(() => late.resolve(false), ms)
  const settled = work.then(
    () => true,
    () => true,
  )
  try {
    return await Promise.race([settled, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** The result of `work`, or `late()` thrown when it takes longer than `ms` (and `work` is left alone). */
export async function deadline<T>(ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  if (await within(ms, work)) return work
  work.catch(() => {}) // given up: its own end, good or bad, interests nobody any more
  throw late()
}

/** A signal that aborts with `reason()` after `ms`, or together with `parent`. Dispose it to stop the clock. */
export function timeout(
  ms: number,
  reason: () => Error,
  parent?: AbortSignal,
): Disposable & { signal: AbortSignal } {
  const own = new AbortController()
  const timer = setTimeout(() => own.abort(reason()), ms)
  const signal = parent === undefined ? own.signal : AbortSignal.any([own.signal, parent])
  return { signal, [Symbol.dispose]: () => clearTimeout(timer) }
}

/** Takes each step in turn until `ended` settles; true when it did. */
export async function retreat(
  ended: Promise<unknown>,
  steps: readonly { do: () => void; wait: number }[],
): Promise<boolean> {
  for (const step of steps) {
    step.do()
    if (await within(step.wait, ended)) return true
  }
  return false
}

/** Runs `work` over all items, at most `width` at a time; results keep the items' order. */
export async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const lane = async () => {
    for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as T)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane))
  return results
}

//#endregion §waiting

//#region §redact: secrets never leave
//
// What a tool prints, a record keeps or a log says may hold a secret. One object
// knows the values that must never be seen and takes them out, together with
// the usual shapes of secrets that nobody told it about.
//
// 1. A known value is found raw, JSON-escaped (once or twice), URL-encoded, in
//    base64 at any alignment, and in hex.
// 2. What is taken out leaves a mark, `[redacted:NAME]`. A write whose text holds
//    a mark is refused (§files), so a round trip never destroys the secret.
// 3. A value that arrives in pieces is found too: RedactStream holds back an end
//    that may be the start of a secret.
// Not here: which values are secret. §config, §store and the front add them.

/** Shapes of secrets that give themselves away; the first group, if any, is kept. */
const SECRET_SHAPES: readonly { readonly name: string; readonly shape: RegExp }[] = [
  {
    name: 'private-key',
    shape: /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g,
  },
  { name: 'bearer', shape: /(\b[Bb]earer\s+)[A-Za-z0-9._~+/-]{16,}=*/g },
  { name: 'api-key', shape: /\bsk-[A-Za-z0-9_-]{20,}/g },
  { name: 'github-token', shape: /\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})/g },
  { name: 'slack-token', shape: /\bxox[abeoprs]-[A-Za-z0-9-]{10,}/g },
  { name: 'aws-key', shape: /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g },
  { name: 'google-key', shape: /\bAIza[A-Za-z0-9_-]{35}/g },
  { name: 'jwt', shape: /\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/g },
  { name: 'url-password', shape: /(\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@]+:)[^\s/@]{6,}(?=@)/g },
  {
    name: 'query-secret',
    shape:
      /([?&](?:api_?key|access_token|token|secret|password|client_secret|sig|signature)=)[^\s&#"'<>]{6,}/gi,
  },
]

const SECRET_NAME = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL/i

/** Whether a variable of that name is expected to hold a secret. */
export const looksSecret = (name: string): boolean => SECRET_NAME.test(name)

/** Whether a text holds a mark that stands for a secret taken out of it. */
export const hasRedactionMark = (text: string): boolean => /\[redacted:[A-Za-z0-9_.-]+\]/.test(text)

/** Knows the secrets and takes them out of texts. */
export class Redactor {
  readonly #names = new Map<string, string>() // each written form of a value, to the value's name
  readonly #starts = new Set<string>() // first characters of all forms
  #pattern: RegExp | undefined
  #longest = 0

  /** Remembers a secret value; values under SECRET_MIN characters are too common and are ignored. */
  add(name: string, value: string): void {
    if (value.length < SECRET_MIN) return
    for (const form of writtenForms(value)) {
      if (!this.#names.has(form)) this.#names.set(form, name)
      this.#starts.add(form[0] ?? '')
      this.#longest = Math.max(this.#longest, form.length)
    }
    this.#pattern = undefined
  }

  /** Takes out known values only: for text that must otherwise stay as it is. */
  known(text: string): string {
    if (this.#names.size === 0) return text
    this.#pattern ??= alternatives([...this.#names.keys()])
    return text.replace(this.#pattern, (found) => this.#mark(found))
  }

  /** Takes out known values and the usual shapes of secrets. */
  redact(text: string): string {
    return SECRET_SHAPES.reduce(
      (rest, { name, shape }) =>
        rest.replace(
          shape,
          (...groups: unknown[]) =>
            `${typeof groups[1] === 'string' ? groups[1] : ''}[redacted:${name}]`,
        ),
      this.known(text),
    )
  }

  /** Whether the text holds a known value. */
  knows(text: string): boolean {
    return this.known(text) !== text
  }

  /** How long the end of `text` is that may be the start of a known value still to come. */
  pending(text: string): number {
    const from = Math.max(0, text.length - this.#longest + 1)
    for (let at = from; at < text.length; at++) {
      if (!this.#starts.has(text[at] ?? '')) continue
      const end = text.slice(at)
      for (const form of this.#names.keys())
        if (form.length > end.length && form.startsWith(end)) return end.length
    }
    return 0
  }

  #mark(found: string): string {
    return `[redacted:${this.#names.get(found) ?? 'secret'}]`
  }
}

/** A text that arrives in pieces, with known values taken out even where they are split. */
export class RedactStream {
  readonly #redactor: Redactor
  #held = ''
  constructor(redactor: Redactor) {
    this.#redactor = redactor
  }

  /** Takes a piece, returns what is safe to show by now. */
  push(piece: string): string {
    const text = this.#redactor.known(this.#held + piece)
    const keep = this.#redactor.pending(text)
    this.#held = text.slice(text.length - keep)
    return text.slice(0, text.length - keep)
  }

  /** What was held back, once nothing more can come. */
  end(): string {
    const rest = this.#held
    this.#held = ''
    return rest
  }
}

/** Every way in which a value is likely to be written. */
function writtenForms(value: string): Set<string> {
  const json = JSON.stringify(value).slice(1, -1)
  const url = encodeURIComponent(value)
  const forms = [
    value,
    json,
    JSON.stringify(json).slice(1, -1),
    url,
    url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    url.replace(/%20/g, '+'),
    Buffer.from(value).toString('hex'),
    ...base64Forms(value),
  ]
  return new Set(forms.filter((form) => form.length >= SECRET_MIN))
}

/** The part of a value's base64 that is the same whatever stands before and after it, per alignment. */
function base64Forms(value: string): string[] {
  const bytes = Buffer.from(value)
  return [0, 1, 2].flatMap((shift) => {
    const text = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const whole = (shift + bytes.length) % 3 === 0 ? text : text.slice(0, -1)
    const form = whole.slice(shift === 0 ? 0 : shift + 1)
    return form.length < SECRET_MIN ? [] : [form, form.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

/** One pattern for many texts, longest first so that the longest wins. */
function alternatives(texts: readonly string[]): RegExp {
  const longestFirst = texts.toSorted((a, b) => b.length - a.length)
  return new RegExp(
    longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'),
    'g',
  )
}

//#endregion §redact

//#region §config: settings, and where each comes from
export type SettingKey = string
/** Where a value came from, and what it hides. */
export type Provenance = {
  readonly key: string
  readonly value: string | undefined
  readonly source: string // 'flag --model', 'TAI_MODEL', a file path, 'tai config set', 'default'
  readonly shadows: readonly { readonly source: string; readonly value: string }[]
}
/** The settings of one run. Order: flag, environment, project file, home file, `tai config set`, default. */
export class Config {
  static load(
    _world: World,
    _sources: {
      flags: Readonly<Record<string, string>>
      stored: Readonly<Record<string, string>>
      root: string
    },
  ): Promise<Config> {
    throw new Error('unbuilt')
  }
  get(_key: string): string | undefined {
    throw new Error('unbuilt')
  }
  number(_key: string): number {
    throw new Error('unbuilt')
  }
  flag(_key: string): boolean {
    throw new Error('unbuilt')
  }
  list(_key: string): string[] {
    throw new Error('unbuilt')
  }
  /** Tables of the files that are not single settings: `[providers.NAME]`. From the home file only. */
  table(_name: string): Readonly<Record<string, JsonObject>> {
    throw new Error('unbuilt')
  }
  all(): Provenance[] {
    throw new Error('unbuilt')
  }
  /** What was ignored and why (a project file that tried to widen permissions, an unknown key). */
  readonly notices: readonly string[] = []
}
//#endregion §config

//#region §seal: secrets at rest
/** Encrypts single values: scrypt key, AES-256-GCM, a self-describing envelope. */
export class Seal {
  readonly on: boolean = false
  readonly locked: boolean = false
  seal(_plain: string): string {
    throw new Error('unbuilt')
  }
  /** Throws SealedError when locked, TaiError when the envelope is broken. A value that is no envelope comes back as it is. */
  open(_stored: string): string {
    throw new Error('unbuilt')
  }
}
//#endregion §seal

//#region §store: the vault, one SQLite file
export type RecordKind = 'note' | 'memory' | 'spill' | 'summary'
export type VaultRecord = {
  readonly id: string
  readonly kind: RecordKind
  readonly title: string
  readonly body: string
  readonly tags: readonly string[]
  readonly session: string | undefined
  readonly created: number
  readonly updated: number
}
export type RecordHit = Omit<VaultRecord, 'body'> & {
  readonly snippet: string
  readonly bytes: number
}
export type SessionRow = {
  readonly id: string
  readonly title: string
  readonly profile: string
  readonly model: string
  readonly workspace: string
  readonly created: number
  readonly updated: number
  readonly messages: number
}
export type StoredMessage = {
  readonly n: number
  readonly created: number
  readonly message: Message
  readonly compacted: boolean
}
export type ProfileRow = {
  readonly name: string
  readonly prompt: string | undefined
  readonly model: string | undefined
  readonly tools: readonly string[] | undefined
  readonly mode: Mode | undefined
  readonly created: number
}
export type AuditEntry = {
  readonly chain: string
  readonly n: number
  readonly ts: number
  readonly kind: string
  readonly session: string | undefined
  readonly data: JsonObject
  readonly hash: string
}
export type AuditFilter = {
  readonly kind?: string | undefined
  readonly tool?: string | undefined
  readonly server?: string | undefined
  readonly since?: number | undefined
  readonly limit: number
}
export type GrantScope = 'once' | 'session' | 'always' | 'deny'
export type Grant = {
  readonly id: string
  readonly tool: string
  readonly scope: GrantScope
  readonly mode: Mode | undefined
  readonly digest: string | undefined
  readonly session: string | undefined
  readonly paths: readonly string[]
  readonly commands: readonly string[]
  readonly created: number
  readonly expires: number | undefined
}
export type UndoEntry = {
  readonly n: number
  readonly path: string
  readonly before: Buffer | undefined
  readonly mode: number | undefined
  readonly kind: 'file' | 'folder' | 'link' | 'absent'
  readonly after: string | undefined
  readonly group: string
  readonly created: number
}
export type Todo = {
  readonly id: string
  readonly text: string
  readonly status: 'pending' | 'in_progress' | 'done' | 'cancelled'
}

/** The vault. Every method is one transaction; promises, so that another engine can stand behind them. */
export class Store {
  readonly redactor: Redactor = new Redactor()
  readonly seal: Seal = new Seal()
  /** Opens (or makes, 0600 in a 0700 home) `<home>/vault.db`. Throws TaiError: newer vault, corrupt file, read-only home, full disk. */
  static open(
    _world: World,
    _options?: { passphrase?: () => Promise<string | undefined>; readOnly?: boolean },
  ): Promise<Store> {
    throw new Error('unbuilt')
  }
  close(): void {
    throw new Error('unbuilt')
  }

  setSecret(_name: string, _value: string): Promise<void> {
    throw new Error('unbuilt')
  }
  getSecret(_name: string): Promise<string | undefined> {
    throw new Error('unbuilt')
  }
  listSecrets(): Promise<{ name: string; created: number; updated: number }[]> {
    throw new Error('unbuilt')
  }
  deleteSecret(_name: string): Promise<boolean> {
    throw new Error('unbuilt')
  }

  addRecord(_record: {
    kind: RecordKind
    title: string
    body: string
    tags?: readonly string[]
    session?: string | undefined
  }): Promise<string> {
    throw new Error('unbuilt')
  }
  updateRecord(
    _id: string,
    _change: {
      title?: string | undefined
      body?: string | undefined
      tags?: readonly string[] | undefined
    },
  ): Promise<boolean> {
    throw new Error('unbuilt')
  }
  getRecord(_id: string): Promise<VaultRecord | undefined> {
    throw new Error('unbuilt')
  }
  listRecords(_filter: { kind?: RecordKind | undefined; limit: number }): Promise<RecordHit[]> {
    throw new Error('unbuilt')
  }
  searchRecords(
    _query: string,
    _filter: { kind?: RecordKind | undefined; limit: number },
  ): Promise<RecordHit[]> {
    throw new Error('unbuilt')
  }
  deleteRecord(_id: string): Promise<boolean> {
    throw new Error('unbuilt')
  }

  createSession(_session: {
    title: string
    profile: string
    model: string
    workspace: string
  }): Promise<string> {
    throw new Error('unbuilt')
  }
  /** By whole id or by a beginning that only one session has. Throws TaiError for several. */
  findSession(_id: string): Promise<SessionRow | undefined> {
    throw new Error('unbuilt')
  }
  latestSession(_workspace: string): Promise<SessionRow | undefined> {
    throw new Error('unbuilt')
  }
  listSessions(_filter: { query?: string | undefined; limit: number }): Promise<SessionRow[]> {
    throw new Error('unbuilt')
  }
  deleteSession(_id: string): Promise<boolean> {
    throw new Error('unbuilt')
  }
  updateSession(
    _id: string,
    _change: { title?: string; model?: string; profile?: string },
  ): Promise<void> {
    throw new Error('unbuilt')
  }
  /** Stores the message redacted (known values), in order; returns its number. */
  appendMessage(_session: string, _message: Message): Promise<number> {
    throw new Error('unbuilt')
  }
  /** Messages in order. `compacted` ones stay readable but are no longer sent. */
  messages(_session: string): Promise<StoredMessage[]> {
    throw new Error('unbuilt')
  }
  /** Marks messages up to `n` (inclusive) as compacted and stores the summary record; returns its id. */
  compact(_session: string, _upTo: number, _summary: string): Promise<string> {
    throw new Error('unbuilt')
  }

  getTodos(_session: string): Promise<Todo[]> {
    throw new Error('unbuilt')
  }
  setTodos(_session: string, _todos: readonly Todo[]): Promise<void> {
    throw new Error('unbuilt')
  }

  listProfiles(): Promise<ProfileRow[]> {
    throw new Error('unbuilt')
  }
  getProfile(_name: string): Promise<ProfileRow | undefined> {
    throw new Error('unbuilt')
  }
  saveProfile(_profile: Omit<ProfileRow, 'created'>): Promise<void> {
    throw new Error('unbuilt')
  }
  deleteProfile(_name: string): Promise<boolean> {
    throw new Error('unbuilt')
  }

  getSettings(): Promise<Record<string, string>> {
    throw new Error('unbuilt')
  }
  /** Undefined deletes. */
  setSetting(_key: string, _value: string | undefined): Promise<void> {
    throw new Error('unbuilt')
  }

  /** Appends one redacted row to this process's hash chain (begun at the first row). */
  audit(_kind: string, _data: JsonObject, _session?: string): Promise<void> {
    throw new Error('unbuilt')
  }
  listAudit(_filter: AuditFilter): Promise<AuditEntry[]> {
    throw new Error('unbuilt')
  }
  /** Walks every chain: `{ rows, chains, problems }`; each problem names chain, row and what is wrong. */
  verifyAudit(): Promise<{ rows: number; chains: number; problems: string[] }> {
    throw new Error('unbuilt')
  }

  addGrant(_grant: Omit<Grant, 'id' | 'created'>): Promise<Grant> {
    throw new Error('unbuilt')
  }
  /** Unexpired grants, newest first; all tools when none is named. */
  listGrants(_tool?: string): Promise<Grant[]> {
    throw new Error('unbuilt')
  }
  /** Takes a once-grant; false when another process took it first. */
  consumeGrant(_id: string): Promise<boolean> {
    throw new Error('unbuilt')
  }
  revokeGrant(_id: string): Promise<boolean> {
    throw new Error('unbuilt')
  }

  /** Keeps what a path held before a change. Entries of one tool call share `group`. */
  pushUndo(_session: string, _entries: readonly Omit<UndoEntry, 'n' | 'created'>[]): Promise<void> {
    throw new Error('unbuilt')
  }
  /** The newest entries first, of one path when given. */
  listUndo(_session: string, _filter: { path?: string; limit: number }): Promise<UndoEntry[]> {
    throw new Error('unbuilt')
  }
  dropUndo(_session: string, _numbers: readonly number[]): Promise<void> {
    throw new Error('unbuilt')
  }

  addHistory(_line: string): Promise<void> {
    throw new Error('unbuilt')
  }
  listHistory(_limit: number): Promise<string[]> {
    throw new Error('unbuilt')
  }
}
//#endregion §store

//#region §workspace: the jail
/** A folder that file tools never leave. Paths are relative to `root`; symlinks are resolved before they are judged. */
export class Workspace {
  readonly root: string = '' // absolute, real
  static open(_root: string, _home: string): Promise<Workspace> {
    throw new Error('unbuilt')
  }
  /** Absolute path for reading; throws TaiError outside the root or into tai's own state. */
  read(_path: string): Promise<string> {
    throw new Error('unbuilt')
  }
  /** Absolute path for writing; also refuses `.git` internals and a final symlink. Parents need not exist. */
  write(_path: string): Promise<string> {
    throw new Error('unbuilt')
  }
  /** The path as the model and the user see it: relative, with `/`. */
  show(_absolute: string): string {
    throw new Error('unbuilt')
  }
}
//#endregion §workspace

//#region §process: child processes that always end
export type RunOptions = {
  readonly argv: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  readonly stdin?: string | undefined
  readonly timeout: number
  readonly signal?: AbortSignal | undefined
  readonly maxOutput?: number
}
export type RunResult = {
  readonly code: number | undefined
  readonly signal: string | undefined
  readonly stdout: string
  readonly stderr: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  readonly timedOut: boolean
  readonly ms: number
}
/** Runs one program to its end, in its own process group, which ends with it. Throws TaiError when it cannot start. */
export function runCommand(_options: RunOptions): Promise<RunResult> {
  throw new Error('unbuilt')
}
/** The environment of a child: the parent's without keys, `TAI_*` and values the redactor knows; then `extra`. */
export function childEnv(
  _world: World,
  _redactor: Redactor,
  _extra?: Readonly<Record<string, string>>,
): Record<string, string> {
  throw new Error('unbuilt')
}
export type BackgroundProcess = {
  readonly id: string
  readonly name: string
  readonly command: string
  readonly pid: number
  readonly started: number
  readonly exit:
    | {
        readonly code: number | undefined
        readonly signal: string | undefined
        readonly at: number
      }
    | undefined
  readonly bytes: number
}
/** The background processes of one session. Owns them: `stopAll` ends every group. */
export class Processes {
  constructor(_world: World, _redactor: Redactor) {}
  start(_options: {
    command: string
    cwd: string
    name?: string | undefined
    env: Readonly<Record<string, string>>
  }): Promise<BackgroundProcess> {
    throw new Error('unbuilt')
  }
  /** Redacted output from byte `since`; waits up to `wait` ms for more. `dropped`: bytes no longer kept before the text. */
  output(
    _id: string,
    _since: number,
    _wait: number,
    _signal: AbortSignal,
  ): Promise<{ text: string; next: number; dropped: number; process: BackgroundProcess }> {
    throw new Error('unbuilt')
  }
  input(_id: string, _text: string, _eof: boolean): Promise<void> {
    throw new Error('unbuilt')
  }
  stop(_id: string, _signal: 'TERM' | 'INT' | 'KILL'): Promise<BackgroundProcess> {
    throw new Error('unbuilt')
  }
  list(): BackgroundProcess[] {
    throw new Error('unbuilt')
  }
  stopAll(): Promise<void> {
    throw new Error('unbuilt')
  }
}
/** Ends what an earlier tai left behind when it was killed: groups recorded in `<home>/run`, told apart by pid and start time. */
export function reapOrphans(_world: World): Promise<number> {
  throw new Error('unbuilt')
}
//#endregion §process

//#region §http: requests with deadlines
export type HttpRequest = {
  readonly method: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer | undefined
  readonly timeout: number
  readonly idle?: number | undefined
  readonly maxBody?: number | undefined
  readonly redirects?: number
  readonly publicOnly?: boolean
  readonly socketPath?: string
  readonly signal?: AbortSignal | undefined
}
export type HttpReply = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly url: string
  readonly body: AsyncIterable<Buffer>
  text(): Promise<string>
  bytes(): Promise<Buffer>
  cancel(): void
}
/** Sends requests: directly over node:http(s), through undici where a proxy or a Unix socket is in the way. */
export class HttpClient {
  constructor(_env: World['env']) {}
  send(_request: HttpRequest): Promise<HttpReply> {
    throw new Error('unbuilt')
  }
  close(): Promise<void> {
    throw new Error('unbuilt')
  }
}
export type SseEvent = {
  readonly event: string
  readonly data: string
  readonly id: string | undefined
}
/** Reads server-sent events (WHATWG HTML 9.2) from pieces cut anywhere. */
export class SseReader {
  constructor(_maxEvent: number) {}
  feed(_chunk: Uint8Array): SseEvent[] {
    throw new Error('unbuilt')
  }
  end(): SseEvent[] {
    throw new Error('unbuilt')
  }
}
//#endregion §http

//#region §models: providers, and which model answers
export type Provider = {
  readonly name: string
  readonly dialect: 'openai' | 'anthropic'
  readonly baseUrl: string
  readonly keys: readonly string[]
  readonly baseEnv?: string
  readonly model?: string
  readonly localPort?: number
}
export type ModelChoice = {
  readonly provider: Provider
  readonly model: string
  readonly baseUrl: string
  readonly key: string | undefined
  readonly window: number
  readonly why: string
}
/** The model that answers: asked for, else the first provider with a key, else a local server, else ModelError with three ways. */
export function chooseModel(_options: {
  asked: string | undefined
  providers: readonly Provider[]
  env: World['env']
  secret: (name: string) => Promise<string | undefined>
  http: HttpClient
  signal?: AbortSignal
}): Promise<ModelChoice> {
  throw new Error('unbuilt')
}
export type ModelInfo = {
  readonly id: string
  readonly provider: string
  readonly window: number | undefined
  readonly tools: boolean | undefined
}
//#endregion §models

//#region §chat: one request to a model, one whole reply
export type ChatRequest = {
  readonly messages: readonly Message[]
  readonly tools: readonly ToolSchema[]
  readonly schema?: JsonObject | undefined
  readonly maxTokens?: number | undefined
}
/** Talks to the chosen model in its dialect: streams, retries, counts. */
export class ChatClient {
  readonly choice: ModelChoice
  constructor(
    choice: ModelChoice,
    _options: { http: HttpClient; idle: number; random?: () => number },
  ) {
    this.choice = choice
  }
  /** Streams one reply. Throws ModelError, or the signal's reason. Retries only while nothing of the reply has arrived. */
  stream(_request: ChatRequest, _signal: AbortSignal): AsyncGenerator<ChatEvent, ChatReply> {
    throw new Error('unbuilt')
  }
  /** The whole reply at once. */
  complete(_request: ChatRequest, _signal: AbortSignal): Promise<ChatReply> {
    throw new Error('unbuilt')
  }
  models(_signal: AbortSignal): Promise<ModelInfo[]> {
    throw new Error('unbuilt')
  }
}
//#endregion §chat

//#region §policy: what may run, and who says so
export const MODES = [
  'read-only',
  'workspace-write',
  'prompt',
  'allow',
  'danger-full-access',
] as const satisfies readonly Mode[]
export type ApprovalRequest = {
  readonly tool: string
  readonly args: JsonObject
  readonly annotations: Annotations
  readonly session: string
  readonly origin?: string
  readonly detail?: string | undefined
}
export type Decision = {
  readonly verdict: 'run' | 'deny'
  readonly reason: string
  readonly digest: string
  readonly say: string | undefined
  readonly grant: string | undefined
}
/** One engine for every call: mode, grants, prompt; each decision is audited. */
export class Approvals {
  constructor(_options: { mode: Mode; store: Store; prompter: Prompter; world: World }) {}
  get mode(): Mode {
    throw new Error('unbuilt')
  }
  decide(_request: ApprovalRequest, _signal: AbortSignal): Promise<Decision> {
    throw new Error('unbuilt')
  }
}
/** The digest of a call: SHA-256 of canonical `{arguments, tool_name}`; shown by its first 12 digits. */
export const callDigest = (tool: string, args: JsonObject): string =>
  digest({ arguments: args, tool_name: tool })
//#endregion §policy

//#region §toolkit: what a tool is made of
//
// A tool is one row: its name, its words for the model, its schema, its risk and
// its work, side by side. The families below this section are rows and their
// helpers; §toolbox joins them and calls them.
//
// 1. `run` gets arguments that were validated against `parameters`, defaults filled in.
// 2. A tool that ran and failed returns `isError`, or throws TaiError, which is the same.
//    Any other exception is a bug of tai and is reported as one.
// 3. A tool reaches the outside only through its ToolContext.

/** The parts of the program that tools may use. */
export interface ToolContext {
  readonly world: World
  readonly session: string
  readonly workspace: Workspace
  readonly store: Store
  readonly http: HttpClient
  readonly config: Config
  readonly processes: Processes
  readonly prompter: Prompter
  readonly approvals: Approvals
  readonly catalog: Catalog
}

/** What select_tools needs of the toolbox that holds it. */
export interface Catalog {
  /** Finds tools by words or exact names and offers them from the next step on. */
  select(query: {
    query?: string | undefined
    names?: readonly string[] | undefined
    limit: number
  }): Promise<{
    offered: readonly ToolSchema[]
    unknown: readonly string[]
  }>
}

export type RateLimit = { readonly maxCalls: number; readonly windowSeconds: number }

/** The TypeScript type of arguments that passed a schema (with defaults filled in). */
export type ArgsOf<S> = S extends { readonly enum: readonly (infer E)[] }
  ? E
  : S extends { readonly type: 'string' }
    ? string
    : S extends { readonly type: 'integer' | 'number' }
      ? number
      : S extends { readonly type: 'boolean' }
        ? boolean
        : S extends { readonly type: 'array'; readonly items: infer I }
          ? readonly ArgsOf<I>[]
          : S extends { readonly type: 'object'; readonly properties: infer P }
            ? { readonly [K in keyof P as K extends Filled<S, P> ? K : never]: ArgsOf<P[K]> } & {
                readonly [K in keyof P as K extends Filled<S, P> ? never : K]?: ArgsOf<P[K]>
              }
            : S extends { readonly type: 'object'; readonly additionalProperties: infer V }
              ? Readonly<Record<string, ArgsOf<V>>>
              : Json

type Filled<S, P> =
  | (S extends { readonly required: readonly (infer R)[] } ? R : never)
  | { [K in keyof P]: P[K] extends { readonly default: Json } ? K : never }[keyof P]

/** A tool with typed arguments, as its author writes it. */
export type ToolRow<S> = {
  readonly name: string
  readonly family: string
  readonly description: string
  readonly parameters: S
  readonly annotations: Annotations
  readonly core: boolean
  readonly rateLimit?: RateLimit
  /** Where reading and changing share a tool: what this call really does. */
  readonly judge?: (args: ArgsOf<S>) => Annotations
  /** What a person is shown beside the arguments before allowing the call (a diff, say). */
  readonly preview?: (args: ArgsOf<S>, context: ToolContext) => Promise<string | undefined>
  readonly run: (args: ArgsOf<S>, context: ToolContext, signal: AbortSignal) => Promise<ToolOutput>
}

/** A tool as the toolbox holds it: its arguments are checked before `run` sees them. */
export type Tool = Omit<ToolRow<JsonSchema>, 'judge' | 'preview' | 'run'> & {
  readonly judge?: (args: JsonObject) => Annotations
  readonly preview?: (args: JsonObject, context: ToolContext) => Promise<string | undefined>
  readonly run: (args: JsonObject, context: ToolContext, signal: AbortSignal) => Promise<ToolOutput>
}

/** Gives a row its types; forgets them for the table. */
export function tool<const S>(row: ToolRow<S>): Tool {
  return row as unknown as Tool
}

/** Annotations from four facts; the `*Hint` keys repeat them in MCP's words. */
export function annotate(
  tier: Tier,
  kind: 'reads' | 'changes' | 'destroys',
  more: { idempotent?: true; openWorld?: true } = {},
): Annotations {
  const [readOnly, destructive] = [kind === 'reads', kind === 'destroys']
  const [idempotent, openWorld] = [more.idempotent === true, more.openWorld === true]
  return {
    readOnly,
    destructive,
    idempotent,
    stateful: !readOnly,
    securityTier: tier,
    readOnlyHint: readOnly,
    destructiveHint: destructive,
    idempotentHint: idempotent,
    openWorldHint: openWorld,
  }
}

//#endregion §toolkit
