import * as fs from 'node:fs'
import * as path from 'node:path'
import t from 'tap'
import { Seal, TaiError } from '../tai.ts'
import { makeHome, makeWorld } from './fakes/vault.ts'

const world = makeWorld('/nowhere')
const sealed = (passphrase: string): Promise<Seal> => Seal.make(world, passphrase)

/** Another process's look at a seal: it knows the state, and has no key yet. */
function lockedCopy(state: Seal['state'], there = world): Seal {
  const seal = new Seal(there)
  seal.state = state
  return seal
}

t.test('a value comes back from its envelope, and never looks the same twice', async (t) => {
  const seal = await sealed('correct horse')
  for (const value of ['s3cret', '', 'ключ 鍵 🔑', 'x'.repeat(100_000)]) {
    const [one, two] = [seal.seal(value, 'secrets/value/A'), seal.seal(value, 'secrets/value/A')]
    t.not(one, two)
    t.notOk(value.length > 3 && one.includes(value))
    t.equal(seal.open(one, 'secrets/value/A'), value)
  }
})

t.test('a value that was changed, or moved to another place, does not open', async (t) => {
  const seal = await sealed('correct horse')
  const stored = seal.seal('s3cret', 'secrets/value/A')
  const last = stored.endsWith('A') ? 'B' : 'A'
  t.throws(() => seal.open(stored, 'secrets/value/B'), {
    name: 'TaiError',
    message: /does not open/,
  })
  t.throws(() => seal.open(stored.slice(0, -2) + last + 'A', 'secrets/value/A'), TaiError)
  t.throws(() => seal.open(stored.slice(0, -8), 'secrets/value/A'), TaiError)
})

t.test('without a seal values are stored as they are', async (t) => {
  const none = new Seal(world)
  const envelope = (await sealed('correct horse')).seal('x', 'p')
  t.equal(none.state, undefined)
  t.equal(none.locked, false)
  t.equal(none.open(none.seal('s3cret', 'p'), 'p'), 's3cret')
  t.equal(none.seal('s3cret', 'p'), 's3cret')
  t.throws(
    () => none.open(envelope, 'p'),
    { message: /needs-unlock/ },
    'an envelope without its seal is locked',
  )
})

t.test('a locked seal gives and takes nothing', async (t) => {
  const first = await sealed('correct horse')
  const stored = first.seal('s3cret', 'p')
  const seal = lockedCopy(first.state)
  t.equal(seal.locked, true)
  const refusal = { message: /needs-unlock/, hint: /TAI_SEAL_PASSPHRASE/ }
  t.throws(() => seal.open(stored, 'p'), refusal)
  t.throws(() => seal.seal('s3cret', 'p'), refusal)
})

t.test('only the passphrase finds the key, however its letters are composed', async (t) => {
  const first = await sealed('caf\u00e9 au lait')
  const stored = first.seal('s3cret', 'p')
  const seal = lockedCopy(first.state)
  t.equal(seal.locked, true)
  await t.rejects(
    seal.unlock(async () => 'cafe au lait'),
    { message: /needs-unlock/ },
  )
  await t.rejects(seal.unlock(), { message: /needs-unlock/ })
  t.equal(seal.locked, true)
  await seal.unlock(async () => 'cafe\u0301 au lait')
  t.equal(seal.open(stored, 'p'), 's3cret')
  await t.rejects(sealed('  '), { message: /empty/ })
})

/** A secret-tool that keeps its one secret in a file, the way the real one keeps many. */
function fakeKeychain(home: string): string {
  const bin = path.join(home, 'bin')
  fs.mkdirSync(bin, { recursive: true })
  const script = `#!/bin/sh
case "$1" in
  store) cat > "${home}/$6" ;;
  lookup) cat "${home}/$5" ;;
esac
`
  fs.writeFileSync(path.join(bin, 'secret-tool'), script, { mode: 0o755 })
  return bin
}

t.test('without a passphrase the key lives in the keychain of the system', async (t) => {
  const home = makeHome(t)
  const env = { PATH: `${fakeKeychain(home)}:${process.env['PATH']}` }
  const linux = makeWorld(home, { env, platform: 'linux' })
  const first = await Seal.make(linux, undefined)
  const stored = first.seal('s3cret', 'p')
  const { id = '', source } = first.state ?? {}
  t.equal(source, 'keychain')
  const seal = lockedCopy(first.state, linux)
  await seal.unlock()
  t.equal(seal.open(stored, 'p'), 's3cret')
  const later = lockedCopy(first.state, linux)
  fs.writeFileSync(path.join(home, id), '00'.repeat(32))
  await t.rejects(later.unlock(), { message: /needs-unlock/ }, 'another key')
  fs.rmSync(path.join(home, id))
  await t.rejects(later.unlock(), { message: /needs-unlock/ }, 'no key')
})

t.test('where no keychain can be reached, the error says so', async (t) => {
  for (const platform of ['linux', 'darwin', 'win32'] as const) {
    const bare = makeWorld('/nowhere', { env: { PATH: '/nowhere' }, platform })
    await t.rejects(Seal.make(bare, undefined), { name: 'TaiError', hint: /passphrase/ }, platform)
  }
})
