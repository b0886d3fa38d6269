// The client under test: the built binary, by the commands a person would type. The suite starts
// this with a server's address, and the scenario in the environment. Exit 0: it did what it could.
import { folder, tai } from '../fakes/tai.ts'

const {
  MCP_CONFORMANCE_SCENARIO: scenario = '',
  MCP_CONFORMANCE_CONTEXT: context = '{}',
  MCP_CONFORMANCE_PROTOCOL_VERSION: version,
} = process.env

type Call = { name: string; arguments: object }
type Schema = { properties?: Record<string, { type?: string }> }

/** Scenarios about the first messages alone, whose servers offer nothing. */
const NO_TOOLS = new Set(['initialize', 'request-metadata'])

const home = folder()
const run = (args: readonly string[], stdin?: string) => tai(['mcp', ...args], { home, stdin })

/** Arguments that fit a plain schema. */
function sampleOf({ properties = {} }: Schema): object {
  const samples: Record<string, unknown> = { number: 3, integer: 3, boolean: true }
  const pairs = Object.entries(properties).map(([name, { type = '' }]) => [
    name,
    samples[type] ?? 'x',
  ])
  return Object.fromEntries(pairs)
}

async function schemaOf(tool: string): Promise<Schema> {
  const { tools } = JSON.parse((await run(['tools', 'suite', '--json'])).out)
  const { name } = tools.find((row: { tool: string }) => row.tool === tool)
  const shown = await tai(['tools', 'show', name, '--json'], { home })
  return JSON.parse(shown.out).parameters
}

/** What a scenario wants called: named by its context, or every tool once. */
async function callsOf(tools: readonly string[]): Promise<Call[]> {
  const { toolCalls } = JSON.parse(context)
  if (toolCalls) return toolCalls
  const calls: Call[] = []
  for (const name of tools) calls.push({ name, arguments: sampleOf(await schemaOf(name)) })
  if (scenario !== 'json-schema-2020-12-preservation') return calls
  const schema = await schemaOf('json_schema_2020_12_tool')
  return [{ name: 'json_schema_echo', arguments: { schema } }]
}

async function take(): Promise<boolean> {
  const era = version === '2026-07-28' ? { era: 'modern' } : {} // else a server decides
  const entry = JSON.stringify({ url: process.argv.at(-1), ...era })
  const added = await run(
    ['add', '-', '--name', 'suite', '--yes', '-P', 'default', '--json'],
    entry,
  )
  if (/it offers no tools/.test(added.err)) return NO_TOOLS.has(scenario) // which ends it, as it should
  const { servers = [] } = JSON.parse(added.out || '{}')
  const [server] = servers
  if (server === undefined) throw new Error(added.err)
  for (const { name, arguments: args } of await callsOf(server.tools)) {
    const { code, out, err } = await run(['call', 'suite', name, JSON.stringify(args)])
    console.error(name, code, out, err)
  }
  return true
}

process.exitCode = (await take()) ? 0 : 1
