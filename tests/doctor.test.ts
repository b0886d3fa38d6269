import t from 'tap'
import { App, examine, Given } from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { outsideOf, runMain } from './fakes/outside.ts'
import { mkdirSync, writeFileSync } from 'node:fs'
import { folder } from './fakes/tai.ts'

t.test('a healthy installation', async (t) => {
  const model = await startModel([], { models: ['m', 'other'] })
  t.teardown(() => model.close())
  const env = { OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_API_KEY: 'k', TAI_MODEL: 'openai/m' }
  const app = new App({ ...outsideOf({ env }), given: new Given(new Map()) })
  const findings = await examine(app)
  await app.close()
  t.strictSame(
    findings.filter((row) => row.health !== 'ok').map((row) => row.name),
    [],
  )
  t.match(findings.find((row) => row.name === 'model')?.text, /openai\/m .*2 models/)
})

t.test('one broken part does not hide the others, and is exit 1', async (t) => {
  const home = folder()
  mkdirSync(`${home}/.tai`)
  writeFileSync(`${home}/.tai/vault.db`, 'this is no database, whatever it is called')
  const run = await runMain(['doctor', '--json'], { home })
  t.equal(run.code, 1)
  const { ok, checks } = JSON.parse(run.out)
  t.equal(ok, false)
  t.match(
    checks.find((row: { name: string }) => row.name === 'vault'),
    { health: 'bad' },
  )
  t.match(
    checks.find((row: { name: string }) => row.name === 'home'),
    { health: 'warn' },
  )
  t.notMatch(run.out, /\bat .*\.ts:/)
})
