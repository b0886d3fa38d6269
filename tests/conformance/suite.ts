// The official conformance suite against one server or our client, and what its verdicts are worth:
// a scenario that fails and is not expected to, or passes and is, is a surprise.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { peer } from '../fakes/peers.ts'

const SUITE_TIMEOUT = 120_000 // ms, for all scenarios together

export type Verdict = { scenario: string; passed: boolean; shouldPass: boolean; why: string }

export const isSurprise = ({ passed, shouldPass }: Verdict): boolean => passed !== shouldPass

type Check = { id: string; status: string; errorMessage?: string; description?: string }

/** Expected failures, from the file that the suite itself reads: `scenario`, or `scenario:check`. */
export function readExpected(version: string): string[] {
  const text = readFileSync(new URL(`${version}.yml`, import.meta.url), 'utf8')
  return [...text.matchAll(/^ *- (\S+)/gm)].map(([, name = '']) => name)
}

type Options = { url: string; version: string; expected: readonly string[]; dir: string }

/** Runs everything that a version requires. Throws when the suite and its files disagree. */
export async function runSuite({ url, version, expected, dir }: Options): Promise<Verdict[]> {
  mkdirSync(dir, { recursive: true })
  const list = join(dir, 'expected.yml')
  writeFileSync(list, ['server:', ...expected.map((name) => `  - ${name}`), ''].join('\n'))
  const results = join(dir, 'results')
  const args = ['server', '--url', url, '--requirements', version]
  const { code, said } = await suite([...args, '--expected-failures', list, '-o', results])
  const verdicts = readdirSync(results).map((name) => {
    const [, scenario = ''] = /^server-(.+)-\d{4}-\d\d-\d\dT/.exec(name) ?? []
    return judge(join(results, name), scenario, expected)
  })
  if (verdicts.length === 0) throw new Error(`the suite ran nothing:\n${said}`)
  if (code === 1 && !verdicts.some(isSurprise))
    throw new Error(`the suite objects to what its files do not show:\n${said}`)
  return verdicts.toSorted((a, b) => a.scenario.localeCompare(b.scenario))
}

/** One scenario of a client, which the suite starts with `command` and an address. */
export async function runClientScenario(
  scenario: string,
  { command, version, dir }: { command: string; version: string; dir: string },
): Promise<Verdict> {
  const results = join(dir, 'results')
  mkdirSync(results, { recursive: true })
  const args = ['--command', command, '--scenario', scenario, '--spec-version', version]
  const { code, said } = await suite(['client', ...args, '-o', results])
  const [name] = readdirSync(results).filter((each) => each.startsWith(`${scenario}-2`))
  if (name === undefined) throw new Error(`the suite wrote nothing on ${scenario}:\n${said}`)
  const verdict = judge(join(results, name), scenario)
  const isFine = verdict.passed && code === 0
  return { ...verdict, passed: isFine, why: verdict.why || (isFine ? '' : said) }
}

async function suite(args: readonly string[]) {
  const entry = await peer('@modelcontextprotocol/conformance/dist/index.js')
  const child = spawn(process.execPath, [entry, ...args], {
    timeout: SUITE_TIMEOUT,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (said += String(piece)))
  const [code] = await once(child, 'close')
  if (code !== 0 && code !== 1) throw new Error(`the suite ended with ${code}:\n${said}`)
  return { code, said }
}

/** A warning counts as a failure. */
function judge(dir: string, scenario: string, expected: readonly string[] = []): Verdict {
  const checks: Check[] = JSON.parse(readFileSync(join(dir, 'checks.json'), 'utf8'))
  const bad = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING')
  const excused = expected
    .filter((name) => name.startsWith(`${scenario}:`))
    .map((name) => name.slice(scenario.length + 1))
  const left = bad.filter(({ id }) => !excused.includes(id))
  const stale = excused.filter((id) => !bad.some((check) => check.id === id))
  const why = [
    ...left.map(({ errorMessage, description }) => errorMessage ?? description),
    ...stale.map((id) => `${id} passes: take it off the list`),
  ]
  return {
    scenario,
    passed: why.length === 0 && checks.length > 0,
    shouldPass: !expected.includes(scenario),
    why: why.join('; '),
  }
}
