// Worlds for the tests of the tools, and tools called as the toolbox calls them.

import * as fs from 'node:fs'
import * as path from 'node:path'
import type t from 'tap'
import {
  Approvals,
  Config,
  denyPrompter,
  HttpClient,
  Processes,
  Redactor,
  Store,
  TaiError,
  TOOLS,
  Workspace,
  type JsonObject,
  type Prompter,
  type Tool,
  type ToolContext,
  type ToolOutput,
} from '../../tai.ts'
import { makeWorld } from './vault.ts'
import { bridgeOf } from './world.ts'

type Test = Pick<typeof t, 'testdir' | 'teardown'>
export type Tree = NonNullable<Parameters<Test['testdir']>[0]>
type Bench = {
  readonly root: string
  readonly context: ToolContext
  call(name: string, args: JsonObject): Promise<ToolOutput>
  preview(name: string, args: JsonObject): Promise<string | undefined>
  text(name: string): string
}

export function row(name: string): Tool {
  const found = TOOLS.find((one) => one.name === name)
  if (found === undefined) throw new Error(`no tool ${name}`)
  return found
}

/** The arguments with what the schema's defaults fill in. */
export function filled(name: string, args: JsonObject): JsonObject {
  const properties = row(name).parameters['properties'] as Record<string, JsonObject>
  const defaults = Object.entries(properties).flatMap(([key, one]) =>
    one['default'] === undefined ? [] : [[key, one['default']] as const],
  )
  return { ...Object.fromEntries(defaults), ...args }
}

/** A real workspace and vault. */
export async function bench(test: Test, tree: Tree = {}): Promise<Bench> {
  const top = test.testdir({ work: tree, home: {}, outside: { 'secret.txt': 'outside\n' } })
  const root = fs.realpathSync(path.join(top, 'work'))
  let ids = 0
  const world = makeWorld(path.join(top, 'home'), {
    env: {},
    cwd: root,
    now: () => 1_700_000_000_000,
    randomBytes: (size) => Buffer.alloc(size, String((ids += 1))),
  })
  const store = await Store.open(world)
  test.teardown(() => store.close())
  const session = await store.createSession({ title: '', profile: '', model: '', workspace: root })
  const workspace = new Workspace(root, world.home)
  const context = { world, store, session, workspace } as unknown as ToolContext
  return {
    root,
    context,
    // As the toolbox does it: a TaiError of a tool is its failed result.
    call: (name, args) =>
      row(name)
        .run(filled(name, args), context, AbortSignal.timeout(20_000))
        .catch((error: unknown) => {
          if (!(error instanceof TaiError)) throw error
          return { text: [error.message, error.hint ?? ''].join('\n').trimEnd(), isError: true }
        }),
    preview: async (name, args) =>
      row(name).preview?.(filled(name, args), context, AbortSignal.timeout(20_000)),
    text: (name) => fs.readFileSync(path.join(root, name), 'utf8'),
  }
}

type Wishes = {
  prompter?: Prompter
  files?: Record<string, string | Buffer>
  env?: Record<string, string>
  flags?: Record<string, string>
}

/** A context over a real vault and workspace, at noon of 31 January 2026; nobody can be asked unless told. */
export async function openContext(
  test: Test,
  { prompter = denyPrompter, files = {}, env = {}, flags = {} }: Wishes = {},
): Promise<ToolContext> {
  const at = fs.realpathSync(test.testdir({ home: {}, root: files }))
  const root = path.join(at, 'root')
  const noon = Date.UTC(2026, 0, 31, 12)
  const world = makeWorld(path.join(at, 'home'), { env, cwd: root, now: () => noon })
  const store = await Store.open(world)
  test.teardown(() => store.close())
  const http = new HttpClient({})
  return {
    world,
    session: 's1',
    workspace: new Workspace(root, world.home),
    store,
    http,
    config: await Config.load(world, { flags, stored: {}, root }),
    processes: new Processes(world, new Redactor()),
    prompter,
    approvals: new Approvals({ mode: 'prompt', store, prompter, world, root: world.cwd }),
    select: () => ({ offered: [], unknown: [] }),
    delegate: async () => ({ text: 'no sub-agents here', isError: true }),
    bridge: bridgeOf({ world, store, http: () => http, notice: () => {} }),
    profile: 'default',
  }
}
