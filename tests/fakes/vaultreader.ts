// A tai that must not write: FILE. Reports what became of opening the vault.

import { openDb, VaultError } from '../../tai.ts'

const [file = ''] = process.argv.slice(2)
const fault = await openDb(file).then(
  () => undefined,
  (error: unknown) => error,
)
process.send?.(fault instanceof VaultError ? [fault.kind, fault.hint] : String(fault))
process.disconnect?.()
