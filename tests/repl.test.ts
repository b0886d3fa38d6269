import t from 'tap'
import { beginChat } from '../tai.ts'
import { startModel } from './fakes/model.ts'
import { ptyAvailable, runInPty } from './fakes/pty.ts'
import { binary } from './fakes/binary.ts'
import { folder } from './fakes/tai.ts'

t.equal(beginChat.name, 'beginChat')

t.test(
  'a chat answers line by line, knows its commands, and leaves',
  { skip: !ptyAvailable && 'no pseudo-terminals here' },
  async (t) => {
    const model = await startModel([{ text: 'Hello **Ada**.' }, { text: 'Second.' }])
    t.teardown(() => model.close())
    const home = folder()
    const env = {
      HOME: home,
      TAI_HOME: `${home}/.tai`,
      OPENAI_BASE_URL: `${model.url}/v1`,
      OPENAI_API_KEY: 'k',
      TAI_MODEL: 'openai/m',
      NO_COLOR: '1',
    }
    const run = await runInPty(
      await binary(),
      [
        { wait: /leaves\.[^]*> /, type: 'I am Ada\r' },
        { wait: /Hello Ada\.[^]*> /, type: '/tols\r' },
        { wait: /there is no \/tols; \/help lists[^]*> /, type: '/help\r' },
        { wait: /\/exit +leave[^]*> /, type: '/session\r' },
        { wait: /session \w+[^]*> /, type: '/new\r' },
        { wait: /session \w+[^]*> /, type: 'again\r' },
        { wait: /Second\.[^]*> /, type: '/exit\r' },
      ],
      { env, cwd: home },
    )
    t.equal(run.code, 0)
    t.equal(model.requests.length, 2)
    t.strictSame(
      model.requests[1]?.body.messages.map((m: { role: string }) => m.role),
      ['system', 'user'],
      'a new session has no past',
    )
  },
)
