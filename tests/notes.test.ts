import t from 'tap'
import { NOTE_TOOLS, type JsonObject, type ToolContext } from '../tai.ts'
import { filled, openContext, row } from './fakes/bench.ts'

const { Validator } = await import('@cfworker/json-schema')

const never = new AbortController().signal

/** Runs a tool with arguments that fit its schema. */
async function use(context: ToolContext, name: string, args: JsonObject = {}) {
  const given = filled(name, args)
  const { valid, errors } = new Validator(row(name).parameters).validate(given)
  if (!valid) throw new Error(JSON.stringify(errors))
  return row(name).run(given, context, never)
}

async function write(context: ToolContext, args: JsonObject): Promise<string> {
  const { text } = await use(context, 'vault_write', args)
  return text.split(' ').at(-1) ?? ''
}

t.test('the tools of this section', async (t) => {
  t.strictSame(
    NOTE_TOOLS.map(({ name }) => name),
    ['vault_read', 'vault_write', 'vault_search', 'vault_delete', 'todo_read', 'todo_write'],
  )
})

t.test('a note is written, found, read, changed and deleted', async (t) => {
  const context = await openContext(t)
  const id = await write(context, { content: 'Buy milk\nand bread', tags: ['home'] })
  const found = await use(context, 'vault_search', { query: 'bread' })
  t.match(found.text, `note ${id} "Buy milk" (18 B)`)
  t.match(await use(context, 'vault_read', { id }), {
    text: `[note ${id} "Buy milk", bytes 0 to 18 of 18]\nBuy milk\nand bread`,
  })
  const changed = await use(context, 'vault_write', { id, content: 'Buy tea', title: 'Tea' })
  t.equal(changed.text, `updated note ${id}`)
  t.match(await context.store.getRecord(id), { body: 'Buy tea', title: 'Tea', tags: ['home'] })
  t.match((await use(context, 'vault_search', { query: 'bread' })).text, 'nothing matches "bread"')
  t.equal((await use(context, 'vault_delete', { id })).text, `deleted ${id}`)
  await t.rejects(use(context, 'vault_read', { id }), { message: `there is no record ${id}` })
  await t.rejects(use(context, 'vault_delete', { id }), { message: /no record/ })
})

t.test('search keeps to a kind, and lists the newest without words', async (t) => {
  const context = await openContext(t)
  const note = await write(context, { content: 'shared words' })
  const memory = await write(context, { content: 'shared words', kind: 'memory' })
  const spill = await context.store.addRecord({ kind: 'spill', title: 's', body: 'shared words' })
  const cases: [string, string, string[]][] = [
    ['shared', 'any', [note, memory, spill]],
    ['shared', 'note', [note]],
    ['shared', 'memory', [memory]],
    ['shared', 'spill', [spill]],
    ['', 'any', [note, memory, spill]],
    [' ', 'memory', [memory]],
    ['"AND (', 'any', []],
  ]
  for (const [query, kind, ids] of cases) {
    const { text } = await use(context, 'vault_search', { query, kind })
    const found = [note, memory, spill].filter((id) => text.includes(id))
    t.strictSame(found, ids, `${query} ${kind}`)
  }
  t.match((await use(context, 'vault_search', { query: '', kind: 'note', limit: 1 })).text, note)
})

t.test('a long record is read in parts that each fit a result', async (t) => {
  const context = await openContext(t, { flags: { result_max: '2048' } })
  const body = 'aé漢😀'.repeat(1_000)
  const id = await context.store.addRecord({ kind: 'spill', title: 'é'.repeat(999), body })
  let read = ''
  for (let offset = 0, parts = 0; ; parts++) {
    const { text } = await use(context, 'vault_read', { id, offset })
    t.ok(Buffer.byteLength(text) <= 2_048)
    t.notMatch(text, '\ufffd')
    read += text.slice(text.indexOf(']\n') + 2)
    const next = /of 10000; read on with offset (\d+)\]\n/.exec(text)
    if (next === null) break
    t.ok(parts < 9)
    offset = Number(next[1])
  }
  t.equal(read, body)
  t.match(await use(context, 'vault_read', { id, offset: 10_000 }), { text: /of 10000\]\n$/ })
  t.match(await use(context, 'vault_read', { id, offset: 1, limit: 2 }), {
    text: /bytes 1 to 3 of .*\né$/,
  })
})

t.test('a part of a record is whole characters, and always gets on', async (t) => {
  const context = await openContext(t)
  const id = await context.store.addRecord({ kind: 'spill', title: 's', body: 'aé😀' })
  const cases: [number, number, string, number, number][] = [
    [0, 1, 'aé', 0, 3],
    [1, 5, 'é', 1, 3],
    [2, 1, 'é', 1, 3],
    [0, 6, 'aé', 0, 3],
    [3, 2, '😀', 3, 7],
    [7, 9, '', 7, 7],
    [99, 9, '', 7, 7],
  ]
  for (const [offset, limit, part, from, end] of cases) {
    const { text } = await use(context, 'vault_read', { id, offset, limit })
    t.match(text, `, bytes ${from} to ${end} of 7`)
    t.equal(text.split(']\n')[1], part)
  }
})

t.test('what must not be stored is refused', async (t) => {
  const context = await openContext(t)
  const spill = await context.store.addRecord({ kind: 'spill', title: 's', body: 'b' })
  const cases: [JsonObject, RegExp][] = [
    [{ content: 'key is [redacted:openai]' }, /what vault_write is given holds a mark/],
    [{ content: 'x', title: '[redacted:a]' }, /what vault_write is given holds a mark/],
    [{ content: ' \n' }, /the content is empty/],
    [{ content: 'x', id: 'no-such' }, /there is no record no-such/],
    [{ content: 'x', id: spill }, /tai itself stored spill/],
  ]
  for (const [args, message] of cases)
    await t.rejects(use(context, 'vault_write', args), { message }, JSON.stringify(args))
  t.equal((await context.store.listRecords({ limit: 9 })).length, 1)
})

t.test(
  'replacing a record is destructive, making one is not; both show what they touch',
  async (t) => {
    const context = await openContext(t)
    const id = await write(context, { content: 'old words' })
    const { judge, preview } = row('vault_write')
    t.match(judge?.({ content: 'x' }), { destructive: false, securityTier: 'Medium' })
    t.match(judge?.({ content: 'x', id }), { destructive: true, securityTier: 'Medium' })
    t.equal(await preview?.({ content: 'x' }, context, AbortSignal.any([])), undefined)
    t.match(
      await preview?.({ content: 'x', id }, context, AbortSignal.any([])),
      /^note .*:\nold words$/,
    )
    t.match(
      await row('vault_delete').preview?.({ id }, context, AbortSignal.any([])),
      /^note .*:\nold words$/,
    )
    t.equal(
      await row('vault_delete').preview?.({ id: 'x' }, context, AbortSignal.any([])),
      undefined,
    )
  },
)

t.test('the task list is replaced as a whole and keeps its ids', async (t) => {
  const context = await openContext(t)
  t.equal((await use(context, 'todo_read')).text, 'the list is empty')
  const items = [
    { text: 'first', status: 'done' },
    { text: 'second', status: 'in_progress', id: '1' },
    { text: 'third', status: 'pending' },
    { text: 'fourth', status: 'cancelled', id: 'x' },
  ]
  const written = await use(context, 'todo_write', { items })
  t.equal(written.text, '[x] 2: first\n[>] 1: second\n[ ] 3: third\n[-] x: fourth')
  t.strictSame(await use(context, 'todo_read'), written)
  t.strictSame(await context.store.getTodos('s2'), [], 'another session has its own')
  const cases: [JsonObject, RegExp][] = [
    [
      { items: Array.from({ length: 201 }, () => ({ text: 'b', status: 'done' })) },
      /too many items/,
    ],
  ]
  for (const [args, message] of cases)
    await t.rejects(use(context, 'todo_write', args), { message })
  t.strictSame(await use(context, 'todo_read'), written, 'a refused list changes nothing')
  await use(context, 'todo_write', { items: [] })
  t.equal((await use(context, 'todo_read')).text, 'the list is empty')
})
