// The tools that the conformance suite calls: real rows beside the real ones, which tai never
// serves by itself.
import {
  annotate,
  RPC_METHODS,
  RpcError,
  toolsOf,
  type JsonObject,
  type Tool,
  type ToolOutput,
} from '../../tai.ts'

// One red pixel, and eight samples of silence.
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC'
const WAV = 'UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=='

const image = { mime: 'image/png', base64: PNG }
const resource = (uri: string, mimeType: string, text: string): JsonObject => ({
  type: 'resource',
  resource: { uri, mimeType, text },
})

const OUTPUTS: Readonly<Record<string, ToolOutput>> = {
  test_simple_text: { text: 'This is a simple text response for testing.' },
  test_image_content: { text: '', images: [image] },
  test_audio_content: {
    text: '',
    blocks: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }],
  },
  test_embedded_resource: {
    text: '',
    blocks: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource.')],
  },
  test_multiple_content_types: {
    text: 'Multiple content types test:',
    images: [image],
    blocks: [resource('test://mixed-content-resource', 'application/json', '{"test":"data"}')],
  },
  test_logging_tool: { text: 'Nothing is logged to a client.' },
  test_streaming_elicitation: { text: 'Nothing is asked back.' },
  test_missing_capability: { text: 'The client declared what this needs.' },
  test_error_handling: {
    text: 'This tool intentionally returns an error for testing',
    isError: true,
  },
}

const SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
} as const

const annotations = annotate('Low', 'reads')
const fixed = Object.entries(OUTPUTS).map(([name, output]) => {
  const description = `Always gives the same: ${name}.`
  return [name, { description, annotations, run: async () => output }]
})

export const FIXTURES: readonly Tool[] = toolsOf('test', {
  ...Object.fromEntries(fixed),
  json_schema_2020_12_tool: {
    description: 'Takes arguments whose schema uses what is new in JSON Schema 2020-12.',
    annotations,
    parameters: SCHEMA as JsonObject,
    run: async (args: JsonObject) => ({ text: JSON.stringify(args) }),
  },
})

/** No tool of tai needs a client that can do more; this one wants to be asked through sampling. */
export function demandSampling(): void {
  const { answer, ...row } = RPC_METHODS.get('tools/call') ?? { answer: () => '{}' }
  const checked: typeof answer = (host, call) => {
    const { name, _meta: meta } = call.params
    const { sampling } = Object(Object(meta)['io.modelcontextprotocol/clientCapabilities'])
    if (name === 'test_missing_capability' && sampling === undefined)
      throw new RpcError('needs', 'the client cannot do sampling', {
        data: { requiredCapabilities: { sampling: {} } },
      })
    return answer(host, call)
  }
  RPC_METHODS.set('tools/call', { ...row, answer: checked })
}

const FIXED_RESOURCES = [
  {
    uri: 'test://static-text',
    name: 'Static text',
    description: 'Always the same text.',
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.',
  },
  {
    uri: 'test://static-binary',
    name: 'Static picture',
    description: 'Always the same pixel.',
    mimeType: 'image/png',
    blob: PNG,
  },
]

/** Resources of tai are files; the suite wants to read these. */
export function addResources(): void {
  const { answer, ...row } = RPC_METHODS.get('resources/read') ?? { answer: () => '{}' }
  const found = (uri: unknown) => FIXED_RESOURCES.find((it) => it.uri === uri)
  RPC_METHODS.set('resources/read', {
    ...row,
    answer: (host, call) => {
      const own = found(call.params['uri'])
      return own ? { contents: [own] } : answer(host, call)
    },
  })
}

/** The scenarios that cannot pass without them. */
export const NEED_FIXTURES: readonly string[] = [
  'tools-call-simple-text',
  'tools-call-image',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-mixed-content',
  'tools-call-error',
  'json-schema-2020-12',
  'resources-read-text',
  'resources-read-binary',
  'http-header-validation:sep-2243-server-accepts-whitespace-header-value', // of a call without arguments
  'server-stateless:sep-2575-server-rejects-undeclared-capability',
  'server-stateless:sep-2575-missing-capability-http-400',
  'server-stateless:sep-2575-http-server-no-independent-requests-on-stream',
  'server-stateless:sep-2575-server-no-log-without-loglevel',
]
