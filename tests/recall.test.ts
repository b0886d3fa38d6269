// Finding in the vault: §store, by words and by parts of words.
import t from 'tap'
import type { Message } from '../tai.ts'
import { openStore } from './fakes/vault.ts'

const note = (title: string, body: string, tags: readonly string[] = []) =>
  ({ kind: 'note', title, body, tags }) as const
const user = (text: string): Message => ({ role: 'user', parts: [{ kind: 'text', text }] })

t.test('a record is added, changed in part, listed and deleted', async (t) => {
  const store = await openStore(t)
  const id = await store.addRecord({ ...note('Title', 'The body', ['one', 'two']), session: 's1' })
  const first = await store.getRecord(id)
  t.match(first, { id, kind: 'note', title: 'Title', body: 'The body', session: 's1' })
  t.strictSame(first?.tags, ['one', 'two'])
  t.equal(await store.updateRecord(id, { body: 'Another body' }), true)
  t.match(await store.getRecord(id), { title: 'Title', body: 'Another body', tags: ['one', 'two'] })
  t.equal(await store.updateRecord('none', { body: 'x' }), false)
  await store.addRecord({ kind: 'memory', title: 'Later', body: 'ü'.repeat(500) })
  const list = await store.listRecords({ limit: 9 })
  t.match(list, [
    { title: 'Later', bytes: 1_000 },
    { title: 'Title', snippet: 'Another body' },
  ])
  t.equal(list[0]?.snippet.length, 200)
  t.equal((await store.listRecords({ kind: 'note', limit: 9 })).length, 1)
  t.equal((await store.listRecords({ session: 's1', limit: 9 })).length, 1)
  t.equal(await store.deleteRecord(id), true)
  t.equal(await store.deleteRecord(id), false)
  t.equal(await store.getRecord(id), undefined)
  t.strictSame(await store.listRecords({ query: 'another', limit: 9 }), [])
})

t.test('records are found by words, whatever the words are', async (t) => {
  const store = await openStore(t)
  const bodies: Readonly<Record<string, string>> = {
    login: 'We fixed the login-bug by rotating the session cookie. Café opened at noon.',
    deploy: 'Deploy with `npm run build && ship --now`; it asks for "approval" first.',
    japanese: '東京都の天気は晴れです。データベースを更新する。',
    chinese: '今天我们修复了登录问题',
    korean: '데이터베이스를 업데이트했습니다',
    thai: 'สวัสดีชาวโลก',
    quotes: `he said "OR" and (NOT) that*`,
  }
  for (const [title, body] of Object.entries(bodies)) await store.addRecord(note(title, body))
  for (const [query, ...expected] of [
    ['cookie', 'login'],
    ['COOKIE session', 'login'],
    ['rotat', 'login'],
    ['login-bug', 'login'],
    ['cafe', 'login'],
    ['天気', 'japanese'],
    ['データ 東京', 'japanese'],
    ['登录', 'chinese'],
    ['데이터', 'korean'],
    ['ชาว', 'thai'],
    ['&&', 'deploy'],
    ['"approval"', 'deploy'],
    ['title: OR NEAR(', 'quotes'],
    ['that*', 'quotes'],
    ['"'],
    ['%_%'],
    ['zebra'],
    ['-'.repeat(2_000)],
  ] as const) {
    const hits = await store.listRecords({ query, limit: 9 })
    const titles = hits.map(({ title }) => title)
    if (query === '"') t.strictSame(titles.toSorted(), ['deploy', 'quotes'])
    else if (query.startsWith('title:')) t.equal(titles[0], 'quotes', 'the most words first')
    else t.strictSame(titles, expected, JSON.stringify(query))
  }
  const newest = Object.keys(bodies).toReversed()
  for (const query of ['', '   ', '\0', undefined]) {
    const hits = await store.listRecords({ ...(query !== undefined && { query }), limit: 9 })
    t.strictSame(
      hits.map(({ title }) => title),
      newest,
      'no word: the newest',
    )
  }
  const [hit] = await store.listRecords({ query: 'cookie', limit: 9 })
  t.match(hit?.snippet, /session cookie/)
  t.match((await store.listRecords({ query: '更新', limit: 9 }))[0]?.snippet, /更新/)
})

t.test('records with all the words come alone, else those with some', async (t) => {
  const store = await openStore(t)
  await store.addRecord(note('both', 'apple banana'))
  await store.addRecord(note('one', 'apple cherry'))
  await store.addRecord({ kind: 'memory', title: 'apple', body: 'in the title' })
  const titles = async (query: string, kind?: 'memory') =>
    (await store.listRecords({ query, kind, limit: 9 })).map(({ title }) => title)
  t.strictSame(await titles('apple banana'), ['both'])
  t.strictSame((await titles('banana cherry')).toSorted(), ['both', 'one'])
  t.strictSame((await titles('apple'))[0], 'apple', 'the title weighs more')
  t.strictSame(await titles('apple', 'memory'), ['apple'])
})

t.test('a record never holds a secret', async (t) => {
  const store = await openStore(t)
  await store.secrets.set('API', 'hunter2hunter2')
  const id = await store.addRecord(
    note('hunter2hunter2', 'Bearer abcdefghijklmnopqrstuv hunter2hunter2', ['hunter2hunter2']),
  )
  await store.updateRecord(id, { title: 'now hunter2hunter2' })
  t.match(await store.getRecord(id), {
    title: 'now [redacted:API]',
    body: 'Bearer [redacted:bearer] [redacted:API]',
    tags: ['[redacted:API]'],
  })
})

const NEW = {
  profile: 'default',
  model: 'openai/x',
  workspace: '/work',
}

t.test('a session is found by the beginning of its id, the newest first', async (t) => {
  const store = await openStore(t)
  const [one, two] = ['aaaaaaaaab', 'aaaaaaaaac']
  for (const [id, title] of [
    [one, 'One'],
    [two, 'Two'],
  ] as const) {
    const made = await store.createSession({ ...NEW, title })
    store.db.run('UPDATE sessions SET id = ? WHERE id = ?', id, made)
  }
  for (const [id, title] of [[one, 'One'], ['AAAAAAAAAB', 'One'], ['zz'], ['']] as const)
    t.equal((await store.findSession(id))?.title, title, id)
  await t.rejects(store.findSession('aaa'), {
    message: /several sessions begin with aaa/,
    hint: /tai session list/,
  })
  t.equal(await store.latestSession('/work'), undefined, 'nothing was said in either')
  await store.appendMessage(one, user('hello'))
  t.equal((await store.latestSession('/work'))?.id, one)
  t.equal(await store.latestSession('/elsewhere'), undefined)
  t.strictSame(
    (await store.listSessions({ limit: 9 })).map(({ id, messages }) => [id, messages]),
    [
      [one, 1],
      [two, 0],
    ],
  )
})

t.test('every kind of message comes back as it was', async (t) => {
  const store = await openStore(t)
  const id = await store.createSession({ ...NEW, title: 'All' })
  const image = { mime: 'image/png', base64: 'AAAA' }
  const messages: readonly Message[] = [
    { role: 'system', text: 'Be brief.' },
    {
      role: 'user',
      parts: [
        { kind: 'text', text: 'Look' },
        { kind: 'image', ...image },
      ],
    },
    {
      role: 'assistant',
      text: '',
      reasoning: [{ text: 'hm', signature: 'sig' }],
      calls: [{ id: 'c1', name: 'file_read', args: { path: 'a' }, extra: { x: 1 } }],
      state: 'complete',
    },
    { role: 'tool', id: 'c1', name: 'file_read', text: 'AB', isError: false, images: [image] },
    { role: 'assistant', text: 'cut o', calls: [], state: 'interrupted' },
  ]
  const numbers: number[] = []
  for (const message of messages) numbers.push(await store.appendMessage(id, message))
  t.strictSame(numbers, [1, 2, 3, 4, 5])
  const stored = await store.messages(id)
  t.strictSame(
    stored.map(({ message }) => message),
    messages,
  )
  const summary = await store.compact(id, 3, 'They looked.')
  t.match(await store.getRecord(summary), { kind: 'summary', session: id, body: 'They looked.' })
  t.strictSame(
    (await store.messages(id)).map(({ compacted }) => compacted),
    [true, true, true, false, false],
  )
})

t.test('a message loses known secrets, and nothing else', async (t) => {
  const store = await openStore(t)
  await store.secrets.set('API', 'hunter2hunter2')
  const id = await store.createSession({ ...NEW, title: 'with hunter2hunter2' })
  const text = 'hunter2hunter2 and Bearer abcdefghijklmnopqrstuv'
  await store.appendMessage(id, user(text))
  t.match((await store.messages(id))[0]?.message, {
    parts: [{ text: '[redacted:API] and Bearer abcdefghijklmnopqrstuv' }],
  })
  t.equal((await store.findSession(id))?.title, 'with [redacted:API]')
  t.strictSame(await store.listSessions({ query: 'hunter2hunter2', limit: 9 }), [])
})

t.test('a broken row is said to be damage of the vault', async (t) => {
  const store = await openStore(t)
  const id = await store.createSession({ ...NEW, title: 'Broken' })
  await store.appendMessage(id, user('hello'))
  store.db.run('UPDATE messages SET message_json = ?', '{"role":')
  await t.rejects(store.messages(id), { name: 'VaultError', message: /is damaged/ })
})

t.test('a call nested deeper than SQLite reads is kept all the same', async (t) => {
  const store = await openStore(t)
  const id = await store.createSession({ ...NEW, title: 'Deep' })
  const args = { a: JSON.parse('['.repeat(1_500) + ']'.repeat(1_500)) }
  const calls = [{ id: 'c1', name: 'file_read', args }]
  const message: Message = { role: 'assistant', text: 'x', calls, state: 'complete' }
  await store.appendMessage(id, message)
  t.equal(JSON.stringify((await store.messages(id))[0]?.message), JSON.stringify(message))
})

t.test('sessions are found by title and by what was said', async (t) => {
  const store = await openStore(t)
  const one = await store.createSession({ ...NEW, title: 'Fix the parser' })
  const two = await store.createSession({ ...NEW, title: 'Anything' })
  await store.appendMessage(two, user('why does the tokenizer fail?'))
  await store.appendMessage(two, user('天気はどうですか'))
  for (const [query, ...ids] of [
    ['parser', one],
    ['PARSER fix', one],
    ['tokenizer', two],
    ['token', two],
    ['天気', two],
    ['the', two, one],
    ['nothing'],
    ['', two, one],
  ] as const) {
    const found = await store.listSessions({ query, limit: 9 })
    t.strictSame(
      found.map(({ id }) => id),
      ids,
      query,
    )
  }
})

t.test('a session takes all that belongs to it along', async (t) => {
  const store = await openStore(t)
  const id = await store.createSession({ ...NEW, title: 'Gone' })
  await store.appendMessage(id, user('unforgettable'))
  await store.compact(id, 1, 'short')
  await store.setTodos(id, [{ id: '1', text: 'x', status: 'done' }])
  const kept = await store.addRecord({ ...note('kept', 'kept'), session: id })
  t.equal((await store.latestSession('/work'))?.id, id)
  t.equal(await store.deleteSession(id), true)
  t.equal(await store.deleteSession(id), false)
  t.strictSame(await store.messages(id), [])
  t.strictSame(await store.getTodos(id), [])
  t.strictSame(await store.listSessions({ query: 'unforgettable', limit: 9 }), [])
  t.strictSame(
    (await store.listRecords({ limit: 9 })).map((record) => record.id),
    [kept],
  )
  await t.rejects(store.appendMessage(id, user('hello')), {
    name: 'TaiError',
    message: `there is no session ${id}`,
  })
})
