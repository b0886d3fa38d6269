// A real world in a folder of its own: a vault, a workspace, tools and approvals, with a clock
// that moves only when a test says so and a person whose answers are written down.
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  Approvals,
  bridgedTools,
  Config,
  denyPrompter,
  HttpClient,
  McpBridge,
  OWN_NAMES,
  Processes,
  Store,
  TOOLS,
  Tools,
  Workspace,
  type BridgeOptions,
  type Mode,
  type Prompter,
  type Tool,
  type ToolContext,
  type World,
} from '../../tai.ts'

export type Setup = {
  mode?: Mode
  prompter?: Prompter
  rows?: Tool[]
  resultMax?: number
  only?: string[] | undefined
}

const SESSION = { title: 't', profile: 'default', model: 'm' }

/** A bridge that shows nothing while a server starts. */
export const bridgeOf = (options: Omit<BridgeOptions, 'watch' | 'taken'>) =>
  new McpBridge({ ...options, taken: OWN_NAMES, watch: () => ({ [Symbol.dispose]() {} }) })

function toolsOver(
  context: Omit<ToolContext, 'select' | 'delegate'>,
  { rows = TOOLS, resultMax = 65_536, only }: Setup,
  say: (line: string) => void,
) {
  const bridged = () => bridgedTools(context.bridge, context.profile)
  const delegate = async () => ({ text: 'no sub-agents here', isError: true })
  const ticks = context.world.now
  return new Tools({ rows, context, bridged, resultMax, say, only, delegate, ticks })
}

/** Everything that tools need, and an end. */
export async function openWorld(setup: Setup = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'tai-world-'))
  const [home, root] = [join(dir, '.tai'), join(dir, 'work')]
  mkdirSync(root)
  let now = Date.parse('2026-05-01T12:00:00Z')
  const env = { PATH: process.env['PATH'], HOME: dir }
  const world: World = {
    env,
    platform: process.platform,
    cwd: root,
    home,
    pid: process.pid,
    now: () => now,
    randomBytes,
  }
  const store = await Store.open(world)
  const config = await Config.load(world, { flags: {}, stored: {}, root })
  const prompter = setup.prompter ?? denyPrompter
  const workspace = new Workspace(root, home)
  const approvals = new Approvals({
    mode: setup.mode ?? 'prompt',
    store,
    prompter,
    world,
    root: workspace.root,
  })
  const session = await store.createSession({ ...SESSION, workspace: root })
  const processes = new Processes(world, store.redactor)
  const http = new HttpClient(env)
  const said: string[] = []
  const say = (line: string) => said.push(line)
  const bridge = bridgeOf({ world, store, http: () => http, notice: say })
  const own = { world, session, workspace, store, http, config, processes, prompter, approvals }
  const tools = toolsOver({ ...own, bridge, profile: 'default' }, setup, say)
  return {
    dir,
    root,
    home,
    world,
    store,
    session,
    tools,
    bridge,
    http,
    said,
    pass: (ms: number) => (now += ms),
    close: async () => {
      await bridge.close()
      await processes.stopAll()
      await http.close()
      store.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

export const never = new AbortController().signal

/** A person who gives these answers, one a question. */
export function person(...answers: (string | undefined)[]): Prompter & { questions: string[] } {
  const questions: string[] = []
  const next = async (question: string) => {
    questions.push(question)
    return answers.shift()
  }
  return { available: true, questions, choose: next, ask: next }
}
