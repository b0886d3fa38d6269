// Vaults with much in them, made quickly.

import * as path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { digest, Store } from '../../tai.ts'
import { makeWorld } from './vault.ts'

const CHAIN_ROWS = 1_000 // rows of each chain, as of that many processes

/** Makes a vault in `home` whose audit has `rows` entries, with valid hashes, in chains of 1,000. */
export async function makeBigVault(home: string, rows: number): Promise<void> {
  const world = makeWorld(home)
  const store = await Store.open(world)
  store.close()
  const db = new DatabaseSync(path.join(home, 'vault.db'))
  db.exec('PRAGMA synchronous = OFF; BEGIN')
  const add = db.prepare(`INSERT INTO audit
    (chain, n, ts, kind, data_json, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  for (let made = 0; made < rows; made += CHAIN_ROWS) {
    const chain = world.randomBytes(8).toString('hex')
    let hash = 'genesis'
    for (let n = 0; n <= Math.min(CHAIN_ROWS, rows - made); n++) {
      const [kind, data_json] =
        n === 0
          ? ['chain', '{"heads":[]}']
          : ['mcp-call', `{"digest":"${hash.slice(0, 12)}","ms":${n},"tool":"t"}`]
      const [ts, prev_hash] = [world.now(), hash]
      hash = digest([chain, n, ts, kind, undefined, data_json, prev_hash])
      add.run(chain, n, ts, kind, data_json, prev_hash, hash)
    }
  }
  db.exec(`INSERT INTO audit_heads (chain, n, hash)
    SELECT chain, n, hash FROM audit GROUP BY chain HAVING n = max(n) ORDER BY max(seq)`)
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
}

/** A migration that takes about a second where the audit is long. */
export const LONG_WAY = `
  CREATE TABLE longer (seq INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
  INSERT INTO longer (text) SELECT hash || prev_hash || data_json FROM audit;
  CREATE INDEX longer_by_text ON longer (text);`
