// An entry of an MCP server, with nothing in it but what a test says.
import type { McpEntry } from '../../tai.ts'

export const entryOf = (more: Partial<McpEntry>): McpEntry => ({
  name: 'stub',
  transport: 'stdio',
  command: undefined,
  args: [],
  env: {},
  cwd: undefined,
  url: undefined,
  socket: undefined,
  headers: {},
  allow: [],
  deny: [],
  enabled: undefined,
  options: {},
  ...more,
})
