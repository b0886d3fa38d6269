// npm run conformance [-- DIR]: the official suite against tai with fixture tools, against the
// built binary, and against the binary as a client. One line a scenario; exit 1 on any surprise.
// The suite's own files stay in DIR.
import { resolve, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { folder } from '../fakes/tai.ts'
import { NEED_FIXTURES } from './fixtures.ts'
import { openBinary, openFixtureServer, type Target } from './servers.ts'
import { isSurprise, readExpected, runClientScenario, runSuite, type Verdict } from './suite.ts'

const VERSIONS = ['2025-11-25', '2026-07-28']
const dir = process.argv[2] === undefined ? folder() : resolve(process.argv[2])

type Entrant = { name: string; open: () => Promise<Target>; cannot: readonly string[] }

const ENTRANTS: readonly Entrant[] = [
  { name: 'fixtures', open: openFixtureServer, cannot: [] },
  { name: 'binary', open: openBinary, cannot: NEED_FIXTURES },
]

async function enter({ name, open, cannot }: Entrant, version: string): Promise<Verdict[]> {
  const expected = [...readExpected(version), ...cannot]
  const target = await open()
  try {
    const at = join(dir, version, name)
    return await runSuite({ url: target.url, version, expected, dir: at })
  } finally {
    await target.close()
  }
}

function word(verdict: Verdict | undefined, listed: readonly string[] = []): string {
  if (verdict === undefined) return 'not run'
  if (isSurprise(verdict)) return verdict.passed ? 'PASSES, BUT IS LISTED' : 'FAILS'
  if (verdict.passed) return 'passes'
  return listed.includes(verdict.scenario) ? 'listed' : '-'
}

const line = (cells: readonly string[]) =>
  console.log(
    cells
      .map((cell, i) => cell.padEnd(i === 0 ? 40 : 10))
      .join(' ')
      .trimEnd(),
  )

const columns: { side: string; rows: Verdict[] }[] = []
for (const version of VERSIONS) {
  const here: Verdict[][] = []
  for (const entrant of ENTRANTS) here.push(await enter(entrant, version))
  ENTRANTS.forEach(({ name }, i) =>
    columns.push({ side: `${name} ${version}`, rows: here[i] ?? [] }),
  )
  const listed = readExpected(version)
  line([`conformance, ${version}`, ...ENTRANTS.map(({ name }) => name)])
  for (const name of new Set(here.flat().map(({ scenario }) => scenario)))
    line([
      name,
      ...here.map((rows) =>
        word(
          rows.find(({ scenario }) => scenario === name),
          listed,
        ),
      ),
    ])
}

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

const all = [...columns, { side: 'client', rows: clients }]
const surprises = all.flatMap(({ side, rows }) =>
  rows.filter(isSurprise).map((verdict) => ({ ...verdict, side })),
)
for (const { side, scenario, why } of surprises)
  console.log(`${side}: ${scenario}: ${why || 'passes: take it off the list'}`)
const totals = all.map(({ side, rows }) => {
  const passed = rows.filter((verdict) => verdict.passed).length
  return `${side} ${passed} of ${rows.length} pass`
})
console.log(`${totals.join(', ')}; ${surprises.length} surprises`)
process.exitCode = surprises.length === 0 ? 0 : 1
