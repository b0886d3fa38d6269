import t from 'tap'
import { COMPACTION_REQUEST, systemPrompt } from '../tai.ts'
import { row } from './fakes/bench.ts'
import { makeWorld } from './fakes/vault.ts'

const facts: Parameters<typeof systemPrompt>[0] = {
  root: '/w',
  world: makeWorld('/home', { platform: 'linux', now: () => Date.parse('2026-05-01') }),
  hidden: [row('git_log')],
  added: undefined,
  schema: undefined,
}

t.test(
  'the model is told where it is, what day it is and what else it could be offered',
  async (t) => {
    const prompt = systemPrompt(facts)
    for (const part of ['/w', 'linux', '2026-05-01', 'git_log', 'select_tools'])
      t.match(prompt, part)
  },
)

t.test('without tools nothing is said of tools', async (t) => {
  t.notMatch(systemPrompt({ ...facts, root: undefined, hidden: undefined }), /tool|workspace/i)
})

t.test("a person's own system prompt stands in place of the built-in one", async (t) => {
  t.equal(
    systemPrompt({ ...facts, root: undefined, hidden: undefined, added: 'Be a pirate.' }),
    'Be a pirate.',
  )
})

t.test('a wanted schema is said', async (t) =>
  t.match(systemPrompt({ ...facts, schema: { type: 'array' } }), /JSON Schema:\n.*"array"/),
)
t.match(COMPACTION_REQUEST, /summary/)
