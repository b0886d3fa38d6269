// A tai that writes: HOME SESSION COUNT. Appends COUNT messages and COUNT audit rows
// as fast as it can, says 'ready' first and waits for any message before it begins;
// with COUNT 0 it writes until it is killed. Ends with 0 when all went well.

import { once } from 'node:events'
import { Store } from '../../tai.ts'
import { makeWorld } from './vault.ts'

const [home = '', session = '', times = '0'] = process.argv.slice(2)
const store = await Store.open(makeWorld(home))
process.send?.('ready')
await once(process, 'message')
for (let i = 0; i < (Number(times) || Infinity); i++) {
  const text = `${process.pid} says ${i}`
  await store.appendMessage(session, { role: 'user', parts: [{ kind: 'text', text }] })
  await store.audit('test', { pid: process.pid, i })
  if (i === 20) process.send?.('under way')
}
store.close()
process.disconnect?.()
