import * as fs from 'node:fs'
import * as path from 'node:path'
import t, { type Test } from 'tap'
import {
  Approvals,
  Config,
  HttpClient,
  type Json,
  type JsonObject,
  NOTE_TOOLS,
  Processes,
  Redactor,
  sliceBytes,
  Store,
  type Tool,
  type ToolContext,
  Workspace,
  type World,
} from '../tai.ts'

const { Validator } = await import('@cfworker/json-schema')

const never = new AbortController().signal

/** A context over a real vault and workspace, with nobody to ask. */
async function open(t: Test, flags: Record<string, string> = {}): Promise<ToolContext> {
  const at = fs.realpathSync(t.testdir({ home: {}, root: {} }))
  const root = path.join(at, 'root')
  const world: World = {
    env: {},
    platform: process.platform,
    cwd: root,
    home: path.join(at, 'home'),
    pid: process.pid,
    now: () => Date.UTC(2026, 0, 31, 12),
    randomBytes: (size) => process.getBuiltinModule('node:crypto').randomBytes(size),
  }
  const store = await Store.open(world)
  t.teardown(() => store.close())
  const prompter = {
    available: false,
    choose: async () => undefined,
    ask: async () => undefined,
  }
  return {
    world,
    session: 's1',
    workspace: await Workspace.open(root, world.home),
    store,
    http: new HttpClient({}),
    config: await Config.load(world, { flags, stored: {}, root }),
    processes: new Processes(world, new Redactor()),
    prompter,
    approvals: new Approvals({ mode: 'prompt', store, prompter, world }),
    catalog: { select: async () => ({ offered: [], unknown: [] }) },
  }
}

const toolNamed = (name: string): Tool => {
  const found = NOTE_TOOLS.find((one) => one.name === name)
  if (found === undefined) throw new Error(`no tool ${name}`)
  return found
}

/** Runs a tool with the defaults of its schema filled in, as the toolbox does. */
async function use(context: ToolContext, name: string, args: JsonObject = {}) {
  const found = toolNamed(name)
  const properties = Object.entries(found.parameters['properties'] as Record<string, JsonObject>)
  const defaults = properties.flatMap(([key, schema]) =>
    schema['default'] === undefined ? [] : [[key, schema['default']] as [string, Json]],
  )
  const given = { ...Object.fromEntries(defaults), ...args }
  const { valid, errors } = new Validator(found.parameters).validate(given)
  if (!valid) throw new Error(JSON.stringify(errors))
  return found.run(given, context, never)
}

async function write(context: ToolContext, args: JsonObject): Promise<string> {
  const { text } = await use(context, 'vault_write', args)
  return text.split(' ').at(-1) ?? ''
}

t.test('a note is written, found, read, changed and deleted', async (t) => {
  const context = await open(t)
  const id = await write(context, { content: 'Buy milk\nand bread', tags: ['home'] })
  const found = await use(context, 'vault_search', { query: 'bread' })
  t.match(found.text, `note ${id} "Buy milk" (18 B)`)
  t.match(await use(context, 'vault_read', { id }), {
    text: `[note ${id} "Buy milk", bytes 0 to 18 of 18; this is its end]\nBuy milk\nand bread`,
  })
  const changed = await use(context, 'vault_write', { id, content: 'Buy tea', title: 'Tea' })
  t.equal(changed.text, `updated note ${id}`)
  t.match(await context.store.getRecord(id), { body: 'Buy tea', title: 'Tea', tags: ['home'] })
  t.match((await use(context, 'vault_search', { query: 'bread' })).text, 'nothing matches "bread"')
  t.equal((await use(context, 'vault_delete', { id })).text, `deleted ${id}`)
  await t.rejects(use(context, 'vault_read', { id }), { message: `there is no record "${id}"` })
  await t.rejects(use(context, 'vault_delete', { id }), { name: 'InvalidError' })
})

t.test('search keeps to a kind, and lists the newest without words', async (t) => {
  const context = await open(t)
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
  const context = await open(t, { result_max: '2048' })
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
  t.match(await use(context, 'vault_read', { id, offset: 10_000 }), { text: /its end\]\n$/ })
  t.match(await use(context, 'vault_read', { id, offset: 1, limit: 2 }), {
    text: /bytes 1 to 3 of .*\né$/,
  })
})

t.test('sliceBytes moves to whole characters and always gets on', async (t) => {
  const cases: [number, number, string, number, number][] = [
    [0, 1, 'aé', 0, 3],
    [1, 5, 'é', 1, 3],
    [2, 1, 'é', 1, 3],
    [0, 6, 'aé', 0, 3],
    [3, 2, '😀', 3, 7],
    [3, -9, '😀', 3, 7],
    [7, 9, '', 7, 7],
    [99, 9, '', 7, 7],
  ]
  for (const [offset, limit, text, from, end] of cases)
    t.strictSame(sliceBytes('aé😀', offset, limit), { text, from, end, total: 7 })
})

t.test('what must not be stored is refused', async (t) => {
  const context = await open(t)
  const spill = await context.store.addRecord({ kind: 'spill', title: 's', body: 'b' })
  const cases: [JsonObject, RegExp][] = [
    [{ content: 'key is [redacted:openai]' }, /the record holds a mark/],
    [{ content: 'x', title: '[redacted:a]' }, /the record holds a mark/],
    [{ content: ' \n' }, /the content is empty/],
    [{ content: 'x', id: 'no-such' }, /there is no record "no-such"/],
    [{ content: 'x', id: spill }, /tai itself stored spill/],
  ]
  for (const [args, message] of cases)
    await t.rejects(use(context, 'vault_write', args), { message }, JSON.stringify(args))
  t.equal((await context.store.listRecords({ limit: 9 })).length, 1)
})

t.test(
  'replacing a record is destructive, making one is not; both show what they touch',
  async (t) => {
    const context = await open(t)
    const id = await write(context, { content: 'old words' })
    const { judge, preview } = toolNamed('vault_write')
    t.match(judge?.({ content: 'x' }), { destructive: false, securityTier: 'Medium' })
    t.match(judge?.({ content: 'x', id }), { destructive: true, securityTier: 'Medium' })
    t.equal(await preview?.({ content: 'x' }, context), undefined)
    t.match(await preview?.({ content: 'x', id }, context), /^note .*:\nold words$/)
    t.match(await toolNamed('vault_delete').preview?.({ id }, context), /^note .*:\nold words$/)
    t.equal(await toolNamed('vault_delete').preview?.({ id: 'x' }, context), undefined)
  },
)

t.test('the task list is replaced as a whole and keeps its ids', async (t) => {
  const context = await open(t)
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
    [{ items: [{ text: ' ', status: 'done' }] }, /a task without text/],
    [
      { items: [1, 2].map(() => ({ id: 'a', text: 'b', status: 'done' })) },
      /two tasks have the same id/,
    ],
    [
      { items: Array.from({ length: 201 }, () => ({ text: 'b', status: 'done' })) },
      /more than 200 tasks/,
    ],
  ]
  for (const [args, message] of cases)
    await t.rejects(use(context, 'todo_write', args), { message })
  t.strictSame(await use(context, 'todo_read'), written, 'a refused list changes nothing')
  await use(context, 'todo_write', { items: [] })
  t.equal((await use(context, 'todo_read')).text, 'the list is empty')
})
