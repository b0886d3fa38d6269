import t from 'tap'
import { readFileSync } from 'node:fs'
import * as tai from '../tai.ts'

const source = readFileSync(new URL('../tai.ts', import.meta.url), 'utf8')
const section = /\/\/#region §caps[\s\S]*?\/\/#endregion §caps/.exec(source)?.[0] ?? ''
const names = [...section.matchAll(/^export const ([A-Z][A-Z_]+) = /gm)].map(
  ([, name]) => name ?? '',
)

t.test(
  'every limit is used, is a sensible number, and says what happens when it is met',
  async (t) => {
    for (const name of names) {
      const value = (tai as Record<string, unknown>)[name]
      if (typeof value === 'number') t.ok(Number.isFinite(value) && value > 0, name)
      t.ok(source.split(new RegExp(`\\b${name}\\b`)).length > 2, `${name} is used`)
    }
    const limits = section
      .split('\n')
      .filter((line) =>
        /^export const (?!VERSION|EXIT|SECOND|MINUTE|HOUR|KB|MB)[A-Z_]+ =/.test(line),
      )
    for (const line of limits) t.match(line, / \/\/ \S+/, line)
  },
)

t.test('numbers that other programs rely on', async (t) => {
  const {
    EXIT,
    HOUR,
    KB,
    MB,
    MCP_HTTP_MAX_BODY,
    MCP_RESULT_MAX,
    MINUTE,
    SECOND,
    STDIN_MAX,
    STREAM_IDLE,
    VERSION,
  } = tai
  t.strictSame(Object.values(EXIT), [0, 1, 2, 3, 4, 5, 6, 130])
  t.strictSame([SECOND, MINUTE, HOUR, KB, MB], [1_000, 60_000, 3_600_000, 1_024, 1_048_576])
  t.strictSame(
    [MCP_RESULT_MAX, MCP_HTTP_MAX_BODY, STDIN_MAX, STREAM_IDLE],
    [65_536, 10_485_760, 8_388_608, 90_000],
  )
  t.equal(
    VERSION,
    JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version,
  )
})
