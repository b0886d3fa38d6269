// npm run conformance [-- DIR]: the official suite against tai with fixture tools, against the
// built binary, and against the binary as a client. One line a scenario; exit 1 on any surprise.
// The suite's own files stay in DIR.
import { resolve, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folder } from '../fakes/tai.ts'
import { NEED_FIXTURES } from './fixtures.ts'
import { openBinary, openFixtureServer, type Target } from './servers.ts'
import { isSurprise, readExpected, runClientScenario, runSuite, type Verdict } from './suite.ts'

const VERSION = '2025-11-25'
const dir = process.argv[2] === undefined ? folder() : resolve(process.argv[2])
const listed = readExpected(VERSION)

type Entrant = { name: string; open: () => Promise<Target>; cannot: readonly string[] }

const ENTRANTS: readonly Entrant[] = [
  { name: 'fixtures', open: openFixtureServer, cannot: [] },
  { name: 'binary', open: openBinary, cannot: NEED_FIXTURES },
]

async function enter({ name, open, cannot }: Entrant): Promise<Verdict[]> {
  const expected = [...listed, ...cannot]
  const target = await open()
  try {
    return await runSuite({ url: target.url, version: VERSION, expected, dir: join(dir, name) })
  } finally {
    await target.close()
  }
}

function word(verdict: Verdict | undefined): string {
  if (verdict === undefined) return 'not run'
  if (isSurprise(verdict)) return verdict.passed ? 'PASSES, BUT IS LISTED' : 'FAILS'
  if (verdict.passed) return 'passes'
  return listed.includes(verdict.scenario) ? 'listed' : '-'
}

const columns: Verdict[][] = []
for (const entrant of ENTRANTS) columns.push(await enter(entrant))

const names = [...new Set(columns.flat().map(({ scenario }) => scenario))]
const line = (cells: readonly string[]) =>
  console.log(
    cells
      .map((cell, i) => cell.padEnd(i === 0 ? 32 : 10))
      .join(' ')
      .trimEnd(),
  )
line([`conformance, ${VERSION}`, ...ENTRANTS.map(({ name }) => name)])
for (const name of names)
  line([name, ...columns.map((rows) => word(rows.find(({ scenario }) => scenario === name)))])

// --- the client ---

const CLIENT_SCENARIOS = {
  '2025-11-25': ['initialize', 'tools_call', 'sse-retry', 'json-schema-2020-12-preservation'],
  '2026-07-28': [
    'tools_call',
    'request-metadata',
    'http-standard-headers',
    'http-custom-headers',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
    'json-schema-2020-12-preservation',
  ],
}

const command = `${process.execPath} ${fileURLToPath(new URL('client.ts', import.meta.url))}`
const clients: Verdict[] = []
for (const [version, scenarios] of Object.entries(CLIENT_SCENARIOS)) {
  line([`client, ${version}`, 'binary'])
  for (const scenario of scenarios) {
    const at = join(dir, 'client', version, scenario)
    const verdict = await runClientScenario(scenario, { command, version, dir: at })
    line([scenario, word(verdict)])
    clients.push({ ...verdict, scenario: `${scenario} (${version})` })
  }
}

const all = [...columns, clients]
const sides = [...ENTRANTS.map(({ name }) => name), 'client']
const surprises = all.flatMap((rows, i) =>
  rows.filter(isSurprise).map((verdict) => ({ ...verdict, at: sides[i] })),
)
for (const { at, scenario, why } of surprises)
  console.log(`${at}: ${scenario}: ${why || 'passes: take it off the list'}`)
const totals = all.map((rows, i) => {
  const passed = rows.filter((verdict) => verdict.passed).length
  return `${sides[i]} ${passed} of ${rows.length} pass`
})
console.log(`${totals.join(', ')}; ${surprises.length} surprises`)
process.exitCode = surprises.length === 0 ? 0 : 1
