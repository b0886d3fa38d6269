// §shapes has types, but for MODES; what a test can hold to is that they say what is meant: a union that is
// switched without a default, and a World that a test can make.
import t from 'tap'
import { MODES } from '../tai.ts'
import type {
  AgentEvent,
  Annotations,
  AssistantMessage,
  ChatEvent,
  ChatReply,
  Choice,
  Json,
  JsonObject,
  Message,
  Mode,
  Part,
  Prompter,
  ToolMessage,
  ToolOutput,
  World,
} from '../tai.ts'

type Named =
  | AgentEvent
  | Annotations
  | AssistantMessage
  | ChatEvent
  | ChatReply
  | Choice
  | Json
  | JsonObject
  | Mode
  | Part
  | Prompter
  | ToolMessage
  | ToolOutput
  | World

/** Fails to compile when a kind of message is added and not handled. */
function speaker(message: Message): string {
  switch (message.role) {
    case 'system':
      return message.text
    case 'user':
      return String(message.parts.length)
    case 'assistant':
      return message.state
    case 'tool':
      return message.id
  }
}

t.test('each kind of message is told by its role', async (t) => {
  const messages: (Message & Named)[] = [
    { role: 'system', text: 'rules' },
    { role: 'user', parts: [{ kind: 'text', text: 'hi' }] },
    { role: 'assistant', text: '', calls: [], state: 'complete' },
    { role: 'tool', id: 'c1', name: 'now', text: 'noon', isError: false },
  ]
  t.strictSame(messages.map(speaker), ['rules', '1', 'complete', 'c1'])
})

t.test('the tightest mode is the first', async (t) => {
  const modes: readonly Mode[] = MODES
  t.equal(modes[0], 'read-only')
})
