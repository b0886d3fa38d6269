import t from 'tap'
import { readFileSync } from 'node:fs'
import * as tai from '../tai.ts'

const source = readFileSync(new URL('../tai.ts', import.meta.url), 'utf8')
const section = /\/\/#region §caps[\s\S]*?\/\/#endregion §caps/.exec(source)?.[0] ?? ''

// Milliseconds and bytes. Who changes a limit writes it here too, and so has thought of it twice.
const LIMITS = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  KB: 1_024,
  MB: 1_048_576,
  MCP_RESULT_MAX: 65_536,
  MCP_MAX_SERVERS: 32,
  MCP_TOOLS_LISTED: 1_000,
  MCP_MAX_TOOLS: 100,
  MCP_HTTP_MAX_BODY: 10_485_760,
  MCP_DEFAULT_PORT: 8_765,
  MCP_DEPTH_MAX: 128,
  MCP_WRITE_TIMEOUT: 30_000,
  MCP_ASIDE_MAX: 2_048,
  MCP_CONNECT_TIMEOUT: 20_000,
  MCP_CALL_TIMEOUT: 60_000,
  MCP_PROGRESS_MAX: 600_000,
  MCP_PAGES_MAX: 100,
  MCP_RELIST_PAUSE: 200,
  MCP_RESUME_WAIT: 1_000,
  MCP_LINGER: 1_000,
  MCP_STREAM_IDLE: 86_400_000,
  MCP_SESSION_IDLE: 3_600_000,
  MCP_SESSION_TOUCH: 60_000,
  MCP_SESSIONS_MAX: 1_000,
  MCP_QUEUE_MAX: 64,
  MCP_CHAT_TIMEOUT: 600_000,
  MCP_CONNECTIONS_MAX: 1_024,
  MCP_PIPELINE_MAX: 32,
  MCP_BODIES_MAX: 67_108_864,
  MCP_HEAD_MAX: 8192,
  MCP_HEADERS_TIMEOUT: 15_000,
  MCP_REQUEST_TIMEOUT: 30_000,
  MCP_KEEP_ALIVE: 75_000,
  MCP_AWAKE: 0.25,
  MCP_STOP_GRACE: 3_000,
  MCP_PUBLIC_KEY_MIN: 16,
  MCP_RESOURCES_PAGE: 500,
  MCP_LIST_TTL: 3_600_000,
  STDIN_MAX: 8_388_608,
  STDIN_NOTICE: 1_000,
  STDIN_WAIT: 10_000,
  STDIN_SOCKET_WAIT: 250,
  STREAM_IDLE: 90_000,
  CHAT_CONNECT_TIMEOUT: 20_000,
  CHAT_RETRIES: 3,
  CHAT_BACKOFF: 500,
  CHAT_RETRY_AFTER_MAX: 60_000,
  CHAT_MAX_TOKENS: 16_384,
  CHAT_EVENT_MAX: 8_388_608,
  CHAT_ERROR_MAX: 2_048,
  LOCAL_PROBE: 300,
  MODEL_LIST_TIMEOUT: 10_000,
  CONTEXT_DEFAULT: 128_000,
  CONTEXT_FULL: 0.8,
  CONTEXT_KEEP: 0.3,
  AGENT_MAX_STEPS: 50,
  AGENT_PARALLEL: 8,
  AGENT_DEPTH_MAX: 3,
  AGENT_RUN_TIMEOUT: 1_800_000,
  SHELL_OUTPUT_MAX: 4_194_304,
  SHELL_STOP_GRACE: 2_000,
  PROCESS_OUTPUT_MAX: 1_048_576,
  PROCESS_MAX: 16,
  GIT_TIMEOUT: 60_000,
  TOOL_TEXT_MAX: 10_485_760,
  UNDO_FILE_MAX: 16_777_216,
  UNDO_STEPS_MAX: 200,
  GREP_FILE_MAX: 2_097_152,
  WALK_MAX: 100_000,
  SQL_TIME: 30_000,
  SQL_TEXT_MAX: 1_048_576,
  QUERY_MEMORY: 1_342_177_280,
  ARCHIVE_MAX: 268_435_456,
  ARCHIVE_ITEMS_MAX: 10_000,
  ARCHIVE_RATIO_MAX: 200,
  WEB_TIMEOUT: 30_000,
  WEB_REDIRECTS: 5,
  APPROVAL_WAIT: 60_000,
  GRANT_SESSION_TTL: 28_800_000,
  STORE_GLANCE: 5,
  STORE_BUSY: 10_000,
  STORE_WAL: 4_000,
  AUDIT_DELAY: 20,
  AUDIT_BATCH: 256,
  SECRET_MIN: 6,
  SECRET_LINE_MIN: 10,
  RECORD_PREVIEW: 2_048,
  AUDIT_ANCHORS: 16,
}

t.test('every limit has the value that is written down here', async (t) => {
  const { EXIT, VERSION } = tai
  const numbers = [...section.matchAll(/^(?:export const |\t)([A-Z][A-Z_]+) = (?!\{|')/gm)].map(
    ([, name = '']) => [name, tai[name as keyof typeof LIMITS]],
  )
  t.strictSame(Object.fromEntries(numbers), LIMITS)
  t.strictSame(Object.values(EXIT), [0, 1, 2, 3, 4, 5, 6, 130])
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  t.equal(VERSION, version)
})

t.test('every limit is used, and says what happens when it is met', async (t) => {
  const units = ['SECOND', 'MINUTE', 'HOUR', 'KB', 'MB']
  for (const name of Object.keys(LIMITS).filter((name) => !units.includes(name))) {
    t.ok(source.split(new RegExp(`\\b${name}\\b`)).length > 2, `${name} is used`)
    t.match(section, new RegExp(`^(?:export const |\t)${name} = .* // \\S+`, 'm'), name)
  }
})
