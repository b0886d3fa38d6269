// A tai whose vault is one version newer, and the way there is long: FILE. Says
// 'migrating' right before it opens the vault.

import { MIGRATIONS, openDb } from '../../tai.ts'
import { LONG_WAY } from './bigvault.ts'

const [file = ''] = process.argv.slice(2)
process.send?.('migrating')
const db = await openDb(file, [...MIGRATIONS, LONG_WAY])
db.close()
process.disconnect?.()
