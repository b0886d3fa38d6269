// Homes and worlds for tests of the vault: a folder that goes with its test, a
// clock that counts, and child processes that share the folder.

import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Store, type Db, type SqlValue, type StoreOptions, type World } from '../../tai.ts'

type Test = { teardown(work: () => unknown): void }

/** A world of its own home; its clock moves one millisecond with every look. */
export function makeWorld(home: string, more: Partial<World> = {}): World {
  let now = 1_700_000_000_000
  return {
    env: { PATH: process.env['PATH'] },
    platform: process.platform,
    cwd: home,
    home,
    pid: process.pid,
    now: () => (now += 1),
    randomBytes: (size) => randomBytes(size),
    ...more,
  }
}

export function makeHome(t: Test): string {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'tai-vault-'))
  t.teardown(() => fs.rmSync(home, { recursive: true, force: true }))
  return path.join(home, 'home')
}

/** A store in a fresh home, both of which end with the test. */
export async function openStore(
  t: Test,
  options: StoreOptions = {},
  world: World = makeWorld(makeHome(t)),
): Promise<Store> {
  const store = await Store.open(world, options)
  t.teardown(() => store.close())
  return store
}

/** Changes a vault behind tai's back. */
export function tamper(home: string, sql: string): void {
  const db = new DatabaseSync(path.join(home, 'vault.db'))
  db.exec(sql)
  db.close()
}

/** Everything that the vault's files hold, as bytes. */
export const vaultBytes = (home: string): Buffer =>
  Buffer.concat(
    fs
      .readdirSync(home)
      .filter((name) => name.startsWith('vault.db'))
      .map((name) => fs.readFileSync(path.join(home, name))),
  )

/** A child process that runs one of the programs beside this file; it ends with the test. */
export function startFake(
  t: Test,
  name: string,
  args: readonly string[],
  options: { uid?: number; gid?: number } = {},
): ChildProcess {
  const child = fork(path.join(import.meta.dirname, name), args, {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** The row that must be there. */
export function oneRow<T>(db: Db, sql: string, ...values: SqlValue[]): T {
  const row = db.get<T>(sql, ...values)
  if (row === undefined) throw new Error(`no row for: ${sql}`)
  return row
}
