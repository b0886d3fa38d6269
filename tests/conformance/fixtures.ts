// The tools that the conformance suite calls: real rows beside the real ones, which tai never
// serves by itself.
import { annotate, toolsOf, type JsonObject, type Tool, type ToolOutput } from '../../tai.ts'

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

/** The scenarios that cannot pass without them. */
export const NEED_FIXTURES: readonly string[] = [
  'tools-call-simple-text',
  'tools-call-image',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-mixed-content',
  'tools-call-error',
  'json-schema-2020-12',
]
