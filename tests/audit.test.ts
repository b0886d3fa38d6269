import t from 'tap'
import { setTimeout } from 'node:timers/promises'
import { AUDIT_BATCH, AUDIT_DELAY, digest, Store } from '../tai.ts'
import { makeBigVault } from './fakes/bigvault.ts'
import { makeHome, makeWorld, oneRow, openStore, tamper } from './fakes/vault.ts'

/** A home with three chains of five entries each; returns their ids in the order of writing. */
async function threeChains(t: Parameters<typeof makeHome>[0]) {
  const world = makeWorld(makeHome(t))
  const chains: string[] = []
  for (const who of ['a', 'b', 'c']) {
    const store = await Store.open(world)
    for (let i = 1; i <= 5; i++) await store.audit('step', { who, i })
    chains.push((await store.listAudit({ limit: 1 }))[0]?.chain ?? '')
    store.close()
  }
  const [a = '', b = '', c = ''] = chains
  return { world, a, b, c }
}

async function verify(world: ReturnType<typeof makeWorld>) {
  const store = await Store.open(world)
  const found = await store.verifyAudit()
  store.close()
  return found
}

const UNLOCK = 'DROP TRIGGER audit_never_changed; DROP TRIGGER audit_never_removed;'

t.test('rows are listed newest first, and filtered', async (t) => {
  const store = await openStore(t)
  await store.audit('mcp-call', { tool: 'read', server: 'files' }, 'session1')
  await store.audit('mcp-call', { tool: 'write', server: 'files' })
  await store.audit('decision', { tool: 'write', verdict: 'deny' })
  const all = await store.listAudit({ limit: 9 })
  t.strictSame(
    all.map(({ n, kind, session, data }) => [n, kind, session, data['tool']]),
    [
      [3, 'decision', undefined, 'write'],
      [2, 'mcp-call', undefined, 'write'],
      [1, 'mcp-call', 'session1', 'read'],
    ],
  )
  const cases: readonly [Partial<Parameters<Store['listAudit']>[0]>, number[]][] = [
    [{ kind: 'mcp-call' }, [2, 1]],
    [{ tool: 'write' }, [3, 2]],
    [{ server: 'files', tool: 'write' }, [2]],
    [{ since: all[0]?.ts }, [3]],
    [{ limit: 1 }, [3]],
  ]
  for (const [filter, numbers] of cases) {
    const rows = await store.listAudit({ limit: 9, ...filter })
    t.strictSame(
      rows.map(({ n }) => n),
      numbers,
      JSON.stringify(filter),
    )
  }
  t.strictSame(await store.verifyAudit(), { rows: 3, chains: 1, problems: [] })
})

t.test('secrets never reach the audit, wherever they stand', async (t) => {
  const store = await openStore(t)
  store.redactor.add('API', 'hunter2hunter2')
  await store.audit('call', {
    argv: ['curl', '-H', 'Authorization: Bearer abcdefghijklmnopqrstuv'],
    hunter2hunter2: { deep: 'x hunter2hunter2 y' },
  })
  const [row] = await store.listAudit({ limit: 1 })
  t.strictSame(row?.data, {
    argv: ['curl', '-H', 'Authorization: Bearer [redacted:bearer]'],
    '[redacted:API]': { deep: 'x [redacted:API] y' },
  })
  t.strictSame((await store.verifyAudit()).problems, [])
})

t.test('rows cannot be changed or taken out by accident', async (t) => {
  const store = await openStore(t)
  await store.audit('call', {})
  t.throws(() => store.db.run("UPDATE audit SET kind = 'other'"), /append-only/)
  t.throws(() => store.db.run('DELETE FROM audit'), /append-only/)
  t.throws(() => store.db.run('REPLACE INTO audit SELECT * FROM audit'), /append-only/)
})

t.test('what somebody did to the file shows, chain by chain', async (t) => {
  const cases: readonly [
    sql: (a: string, b: string, c: string) => string,
    ...((a: string, b: string, c: string) => RegExp)[],
  ][] = [
    [() => ''],
    [
      (_a, b) => `UPDATE audit SET data_json = '{"who":"me"}' WHERE chain = '${b}' AND n = 3`,
      (_a, b) => RegExp(`^chain ${b}, row 3: changed after`),
    ],
    [
      (_a, b) => `UPDATE audit SET ts = ts + 1 WHERE chain = '${b}' AND n = 3`,
      (_a, b) => RegExp(`^chain ${b}, row 3: changed after`),
    ],
    [
      (a) => `DELETE FROM audit WHERE chain = '${a}' AND n IN (2, 3)`,
      (a) => RegExp(`^chain ${a}, row 4: rows before it are missing: 2`),
    ],
    [
      (a) => `DELETE FROM audit WHERE chain = '${a}' AND n = 0`,
      (a) => RegExp(`^chain ${a}, row 1: rows before it are missing: 1`),
    ],
    [
      (a) => `DELETE FROM audit WHERE chain = '${a}' AND n > 3`,
      (a) => RegExp(`^chain ${a}, row 5: missing, the chain ends before it`),
    ],
    [
      (a) => `DELETE FROM audit WHERE chain = '${a}'; DELETE FROM audit_heads WHERE chain = '${a}'`,
      (a) => RegExp(`^chain ${a}, row 5: missing, the chain ends before it`),
    ],
    [
      (_a, _b, c) => `DELETE FROM audit_heads WHERE chain = '${c}'`,
      (_a, _b, c) => RegExp(`^chain ${c}, row 0: its chain is not in the list of heads`),
    ],
    [
      (a, _b, c) => `UPDATE audit SET data_json = 'oops' WHERE chain = '${c}' AND n = 0;
        DELETE FROM audit WHERE chain = '${a}' AND n = 2`,
      (a) => RegExp(`^chain ${a}, row 3: rows before it are missing: 1`),
      (_a, _b, c) => RegExp(`^chain ${c}, row 0: changed`),
    ],
  ]
  for (const [sql, ...expected] of cases) {
    const { world, a, b, c } = await threeChains(t)
    tamper(world.home, UNLOCK + sql(a, b, c))
    const { problems } = await verify(world)
    t.equal(problems.length, expected.length, `${sql('A', 'B', 'C')}: ${problems.join('; ')}`)
    for (const pattern of expected)
      t.ok(
        problems.some((problem) => pattern(a, b, c).test(problem)),
        String(pattern(a, b, c)),
      )
  }
})

t.test('a row that was re-hashed does not fit the row after it', async (t) => {
  const { world, a } = await threeChains(t)
  const store = await Store.open(world)
  const sql = 'SELECT ts, kind, session, prev_hash FROM audit WHERE chain = ? AND n = 2'
  const { ts, kind, session, prev_hash } = oneRow<Record<string, string>>(store.db, sql, a)
  store.close()
  const hash = digest([a, 2, ts, kind, session, '{}', prev_hash])
  tamper(
    world.home,
    `${UNLOCK} UPDATE audit SET data_json = '{}', hash = '${hash}' WHERE chain = '${a}' AND n = 2`,
  )
  t.match((await verify(world)).problems, [`chain ${a}, row 3: does not continue`])
})

t.test('an entry that cannot be written says so, and is written with the next', async (t) => {
  const store = await openStore(t)
  await store.audit('step', { i: 1 })
  store.db.exec('CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE (ABORT, "no"); END')
  await t.rejects(store.audit('step', { i: 2 }))
  store.db.exec('DROP TRIGGER full')
  await store.audit('step', { i: 3 })
  t.strictSame(await store.verifyAudit(), { rows: 3, chains: 1, problems: [] })
  const told = (await store.listAudit({ limit: 9 })).map(({ data }) => data['i'])
  t.strictSame(told, [3, 2, 1])
})

t.test('once an entry could not be written, none is put off', async (t) => {
  const store = await openStore(t)
  await store.audit('step', { i: 1 })
  store.db.exec('CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE (ABORT, "no"); END')
  await store.audit('step', { i: 2 }, undefined, 'soon')
  await setTimeout(3 * AUDIT_DELAY)
  for (let i = 0; i < 2 * AUDIT_BATCH; i++)
    await t.rejects(store.audit('step', { i: 3 + i }, undefined, 'soon'))
  store.db.exec('DROP TRIGGER full')
  await store.audit('step', {}, undefined, 'soon')
  t.strictSame(await store.verifyAudit(), { rows: AUDIT_BATCH + 1, chains: 1, problems: [] })
})

t.test('an audit of thirty chains verifies, and grows on', async (t) => {
  const home = makeHome(t)
  await makeBigVault(home, 30_000)
  const store = await openStore(t, {}, makeWorld(home))
  await store.audit('step', {})
  t.strictSame(await store.verifyAudit(), { rows: 30_001, chains: 31, problems: [] })
})
