import t from 'tap'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { Workspace, WorkspaceLock } from '../tai.ts'
import { pipe } from './fakes/piped.ts'
import { begin, INITIALIZE, serve, type Peer } from './fakes/served.ts'
import { folder } from './fakes/tai.ts'
import { makeHome, makeWorld, openStore } from './fakes/vault.ts'

/** A tree with a workspace, tai's home inside it, and a neighbour that must stay out of reach. */
async function makeTree(dir: string) {
  const base = fs.realpathSync(dir)
  const root = path.join(base, 'work')
  const at = (...names: string[]) => path.join(root, ...names)
  for (const folder of ['src', '.git/hooks', '.tai', 'home', 'sub/.git'])
    fs.mkdirSync(at(folder), { recursive: true })
  fs.mkdirSync(path.join(base, 'work-neighbour'))
  const files = { 'src/a.txt': 'a', '.git/config': '', '.tai/config.toml': '', 'home/vault.db': '' }
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(at(name), text)
  fs.writeFileSync(path.join(base, 'work-neighbour', 'secret.txt'), 'secret')
  const links = {
    'in-file': 'src/a.txt',
    'in-folder': 'src',
    out: path.join(base, 'work-neighbour'),
    'out-file': '../work-neighbour/secret.txt',
    nowhere: path.join(base, 'work-neighbour', 'later.txt'),
    loop: 'loop',
    'to-home': 'home',
    'to-git': '.git',
  }
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, at(name))
  const workspace = new Workspace(root, at('home'))
  return { base, root, at, workspace }
}

t.test('paths inside resolve, however they are spelled', async (t) => {
  const { workspace, at, root, base } = await makeTree(t.testdir())
  const alias = path.join(base, 'alias')
  fs.symlinkSync(root, alias)
  const cases: [given: string, real: string][] = [
    ['.', root],
    ['src/a.txt', at('src/a.txt')],
    ['./src/../src/./a.txt', at('src/a.txt')],
    [at('src/a.txt'), at('src/a.txt')],
    [path.join(alias, 'src/a.txt'), at('src/a.txt')],
    ['in-file', at('src/a.txt')],
    ['in-folder/new/deep.txt', at('src/new/deep.txt')],
    ['..name', at('..name')],
    ['~$draft.docx', at('~$draft.docx')],
    ['.git/config', at('.git/config')],
    ['.tai/config.toml', at('.tai/config.toml')],
    ['out/../src/a.txt', at('src/a.txt')],
  ]
  for (const [given, real] of cases) t.equal(await workspace.read(given), real, given)
})

t.test(
  'what leads out, in a circle or into tai itself is refused and says what to do',
  async (t) => {
    const { workspace, at, base } = await makeTree(t.testdir())
    fs.mkdirSync(path.join(base, 'work', 'shut'))
    const cases: [given: string, message: RegExp][] = [
      ['a\0b', /null bytes/],
      ['~', /a shell/],
      ['~/x', /a shell/],
      ['~root/x', /a shell/],
      ['..', /outside the workspace/],
      ['../work-neighbour/secret.txt', /outside the workspace/],
      ['src/../../x', /outside the workspace/],
      ['/etc/passwd', /outside the workspace/],
      [path.join(base, 'work-neighbour'), /outside the workspace/],
      ['out/secret.txt', /outside the workspace/],
      ['out/not-there/yet.txt', /outside the workspace/],
      ['out-file', /outside the workspace/],
      ['nowhere', /ENOENT/],
      ['nowhere/x', /ENOENT/],
      ['loop', /ELOOP/],
      ['src/a.txt/x', /is below a file/],
      ['home', /belongs to tai/],
      ['home/vault.db', /belongs to tai/],
      ['home/new', /belongs to tai/],
      ['to-home/vault.db', /belongs to tai/],
      ['x'.repeat(300), /ENAMETOOLONG/],
    ]
    for (const [given, message] of cases) {
      await t.rejects(workspace.read(given), { name: 'TaiError', message }, `read ${given}`)
      if (given !== 'out-file' && given !== 'nowhere' && given !== 'loop')
        await t.rejects(workspace.write(given), { name: 'TaiError', message }, `write ${given}`)
    }
    await t.rejects(workspace.read('/etc/passwd'), { message: /outside/, hint: /--root/ })
    t.equal(workspace.hides(at('home/vault.db')), true)
    t.equal(workspace.hides(at('src')), false)
  },
)

t.test('writing keeps off git, tai settings and links', async (t) => {
  const { workspace, at } = await makeTree(t.testdir())
  const refused: [given: string, message: RegExp][] = [
    ['.git', /git runs/],
    ['.git/hooks/pre-commit', /git runs/],
    ['.GIT/hooks/x', /git runs/],
    ['.git. /x', /git runs/],
    ['.g\u200cit/x', /git runs/],
    ['GIT~1/x', /git runs/],
    ['sub/.git/config', /git runs/],
    ['to-git/config', /git runs/],
    ['.tai/config.toml', /tai obeys/],
    ['.tai', /tai obeys/],
    ['.', /holds the home of tai/],
    ['in-file', /symbolic link/],
    ['nowhere', /symbolic link/],
    ['out-file', /symbolic link/],
  ]
  for (const [given, message] of refused)
    await t.rejects(workspace.write(given), { name: 'TaiError', message }, given)
  for (const given of ['src/a.txt', 'new/deep/file.txt', '.gitignore', 'sub/.tai/x', 'src'])
    t.equal(await workspace.write(given), at(given), given)
  t.equal(await workspace.write('in-folder/b.txt'), at('src/b.txt'))
  t.equal(await workspace.entry('in-file'), at('in-file'), 'the link itself')
  t.equal(await workspace.entry('nowhere'), at('nowhere'), 'even where it leads nowhere')
})

t.test('a regular file is read, and nothing else', async (t) => {
  const { workspace } = await makeTree(t.testdir())
  t.equal(`${await workspace.bytes('in-file')}`, 'a')
  await t.rejects(workspace.bytes('gone'), { message: /ENOENT.*work\/gone'/ })
  await t.rejects(workspace.bytes('src'), { message: /regular file/ })
  await t.rejects(workspace.bytes('/dev/zero'), { message: /outside/ })
  await t.rejects(workspace.bytes('src/a.txt', 0), { message: /src\/a.txt is too large: 1 B/ })
})

t.test('paths are shown relative, with slashes', async (t) => {
  const { workspace, at, base } = await makeTree(t.testdir())
  t.equal(workspace.show(at('src', 'a.txt')), 'src/a.txt')
  t.equal(workspace.show(workspace.root), '.')
  t.equal(workspace.show(base), base)
})

t.test('a root that is missing or a file is a usage error', async (t) => {
  const { at, base } = await makeTree(t.testdir())
  for (const root of [at('missing'), at('src/a.txt'), at('loop')])
    t.throws(
      () => new Workspace(root, base),
      { name: 'UsageError', message: /the workspace/, hint: /--root/ },
      root,
    )
})

t.test('a workspace inside the home of tai opens, and nothing in it can be touched', async (t) => {
  const { at } = await makeTree(t.testdir())
  const workspace = new Workspace(at('src'), at())
  await t.rejects(workspace.read('a.txt'), { message: /belongs to tai/ })
})

// --- the lock ---

type Test = Parameters<typeof makeHome>[0]
type Lock = { workspace_path: string; owner_pid: number; acquired_at: string } & Record<
  string,
  unknown
>

const registryOf = (home: string) => path.join(home, 'workspace_registry.json')
const locksIn = (home: string): Lock[] =>
  JSON.parse(fs.readFileSync(registryOf(home), 'utf8')).locks

/** Servers of one home and workspace, each with its key. */
async function serversOf(t: Test, ...keys: string[]) {
  const [home, cwd] = [folder(), fs.realpathSync(folder())]
  const all = await Array.fromAsync(keys, (key) => serve(t, { home, cwd, key }))
  const peers = await Promise.all(all.map((server) => begin(server)))
  const locks = () => locksIn(path.join(home, '.tai'))
  return { home, cwd, all, peers, locks, at: (name: string) => path.join(cwd, name) }
}
const write = (peer: Peer | undefined, name: string) =>
  peer!.call('write_file', { path: name, content: name })
const [A, B] = ['key-of-one-0123456789', 'key-of-two-0123456789']

t.test('of two servers with one workspace, one changes it, and both read it', async (t) => {
  const { all, peers, locks, cwd, at } = await serversOf(t, A, B)
  const [one, two] = peers
  fs.writeFileSync(at('old'), 'x')
  t.match((await two!.call('read_file', { path: 'old' })).body, { result: {} })
  t.notOk(fs.existsSync(registryOf(path.join(all[0]!.home, '.tai'))), 'reading takes no lock')
  t.match((await write(one, 'first')).body, { result: {} })
  const pid = all[0]!.child.pid!
  const [lock] = locks()
  t.match(lock, { workspace_path: cwd, owner_pid: pid, acquired_at: /^\d{4}-\d\d-\d\dT.*Z$/ })
  t.equal(fs.statSync(registryOf(path.join(all[0]!.home, '.tai'))).mode & 0o777, 0o600)
  t.notMatch(JSON.stringify(locks()), A, 'the key is not in it')
  const changing = {
    write_file: { path: 'second', content: 'x' },
    shell_exec: { command: 'touch second' },
    todo_write: { items: [] },
    git_branch: { action: 'create', name: 'second' },
    chat: { message: 'hi' },
  }
  for (const [tool, args] of Object.entries(changing)) {
    const { body } = await two!.call(tool, args)
    t.match(body.error, { code: -32003, message: new RegExp(`process ${pid} .*${cwd}`) }, tool)
    const { acquired_at } = lock!
    const data = { tool, details: /read/, workspace_path: cwd, owner_pid: pid, acquired_at }
    t.match(body.error.data, data, tool)
  }
  t.notOk(fs.existsSync(at('second')))
  t.match((await two!.call('list_dir', { path: '.' })).body, { result: {} }, 'it reads on')
  t.match((await two!.ask('tools/list')).body, { result: {} })
  t.match((await two!.call('git_branch', { action: 'list' })).body, { result: {} }, 'by arguments')
  all[0]!.child.kill('SIGTERM')
  t.match(await all[0]!.done, { code: 143 })
  t.strictSame(locks(), [], 'a clean end releases it')
  t.match((await write(two, 'second')).body, { result: {} })
  all[1]!.child.kill('SIGINT')
  await all[1]!.done
  t.strictSame(locks(), [])
})

t.test('servers of one key share it, until the last of them ends', async (t) => {
  const { all, peers, locks } = await serversOf(t, A, A, B)
  const [one, two, other] = peers
  for (const peer of [one, two]) t.match((await write(peer, 'a')).body, { result: {} })
  t.equal(locks().length, 2)
  all[0]!.child.kill('SIGTERM')
  await all[0]!.done
  t.match((await write(other, 'b')).body.error, { data: { owner_pid: all[1]!.child.pid } })
  t.match((await write(two, 'c')).body, { result: {} })
  all[1]!.child.kill('SIGTERM')
  await all[1]!.done
  t.match((await write(other, 'b')).body, { result: {} })
})

t.test(
  'the lock of a server that was killed is free, and its group has no say in it',
  async (t) => {
    const { all, peers, locks } = await serversOf(t, A, B)
    const [one, two] = peers
    await write(one, 'a')
    all[0]!.child.kill('SIGKILL')
    await all[0]!.done
    t.equal(locks().length, 1, 'it could not be released')
    t.match((await write(two, 'b')).body, { result: {} })
    t.match(locks(), [{ owner_pid: all[1]!.child.pid }])
    t.equal(locks().length, 1)
  },
)

t.test(
  'a server on stdio is a group of its own, and releases the lock when its host leaves',
  async (t) => {
    const [home, cwd] = [folder(), fs.realpathSync(folder())]
    const args = ['--permission-mode', 'allow']
    const [one, two] = [await pipe(t, { home, cwd, args }), await pipe(t, { home, cwd, args })]
    const http = await begin(await serve(t, { home, cwd }))
    const change = (server: typeof one, name: string) =>
      server.ask('tools/call', { name: 'write_file', arguments: { path: name, content: name } })
    for (const server of [one, two]) await server.ask('initialize', INITIALIZE)
    t.match(await change(one, 'a'), { result: {} })
    t.match(await change(one, 'b'), { result: {} })
    const owner_pid = one.child.pid!
    t.match(await change(two, 'c'), { error: { code: -32003, data: { owner_pid } } })
    t.match((await write(http, 'c')).body, { error: { code: -32003, data: { owner_pid } } })
    t.match(await two.ask('tools/list'), { result: {} })
    one.child.stdin.end()
    t.match(await one.done, { code: 0 })
    t.strictSame(locksIn(path.join(home, '.tai')), [])
    t.match(await change(two, 'c'), { result: {} })
    two.child.kill('SIGINT')
    await two.done
    t.match((await write(http, 'd')).body, { result: {} })
  },
)

t.test('what a mode denies takes no lock', async (t) => {
  const [home, cwd] = [folder(), folder()]
  const server = await serve(t, { home, cwd, args: ['--permission-mode', 'read-only'] })
  t.match((await write(await begin(server), 'a')).body.error, { code: -32001 })
  t.notOk(fs.existsSync(registryOf(path.join(home, '.tai'))))
})

/** Locks as processes with these pids have them, over one vault. `starts`: who lives. */
async function locksOver(t: Test) {
  const home = makeHome(t)
  const store = await openStore(t, {}, makeWorld(home))
  const starts = new Map<number, string>()
  const lock = (pid: number, group = `${pid}`, root = '/work') => {
    if (!starts.has(pid)) starts.set(pid, `start of ${pid}`)
    const world = { ...makeWorld(home), pid }
    const startOf = (of: number) => starts.get(of)
    return new WorkspaceLock({ world, db: store.db, root, group: () => group, startOf })
  }
  const say = (text: string) => fs.writeFileSync(registryOf(home), text)
  return { home, starts, lock, say, locks: () => locksIn(home) }
}

t.test('a process that has the pid of an owner, but is another, holds nothing', async (t) => {
  const { lock, starts, locks } = await locksOver(t)
  t.equal(lock(10).take(), undefined)
  t.match(lock(20).take(), { owner_pid: 10 })
  starts.set(10, 'later')
  t.equal(lock(20).take(), undefined)
  t.strictSame(
    locks().map((it) => it.owner_pid),
    [20],
  )
})

t.test(
  'the real start time is looked at: a forged record of a live process is dropped',
  async (t) => {
    const home = folder()
    const cwd = fs.realpathSync(folder())
    const record = {
      workspace_path: cwd,
      owner_pid: process.pid,
      acquired_at: '2026-01-01T00:00:00Z',
    }
    const server = await serve(t, { home, cwd })
    const peer = await begin(server)
    const say = (more: object) =>
      fs.writeFileSync(
        registryOf(path.join(home, '.tai')),
        JSON.stringify({ locks: [{ ...record, ...more }] }),
      )
    say({})
    t.match((await write(peer, 'a')).body.error, { code: -32003, data: record }, 'it lives')
    say({ started: 'before the system was started', group: 'g' })
    t.match((await write(peer, 'a')).body, { result: {} })
  },
)

t.test('the same process or group may take it twice, and releases only its own', async (t) => {
  const { lock, locks } = await locksOver(t)
  const [one, two] = [lock(10, 'g'), lock(11, 'g')]
  for (const each of [one, one, two, lock(10, 'g')]) t.equal(each.take(), undefined)
  t.equal(locks().length, 2)
  lock(12).release()
  t.equal(locks().length, 2, 'who holds nothing releases nothing')
  one.release()
  t.match(locks(), [{ owner_pid: 11 }])
  t.match(lock(12).take(), { owner_pid: 11 })
  two.release()
  t.strictSame(locks(), [])
  t.equal(lock(12).take(), undefined)
})

t.test('nested workspaces are different ones', async (t) => {
  const { lock, locks } = await locksOver(t)
  for (const [pid, root] of [10, 11, 12].map((id, i) => [id, `/work${'/in'.repeat(i)}`] as const))
    t.equal(lock(pid, undefined, root).take(), undefined, root)
  t.equal(locks().length, 3)
})

t.test('a registry that cannot be read is an empty one', async (t) => {
  const { lock, say, locks, home } = await locksOver(t)
  lock(10).take()
  const texts = ['', '{', '[]', 'null', '{"locks":{}}', '{"locks":7}', '{"locks":[null,7,{}]}']
  for (const [i, text] of texts.entries()) {
    say(text)
    t.equal(lock(20 + i).take(), undefined, text)
    t.match(locks(), [{ owner_pid: 20 + i }])
  }
  fs.rmSync(registryOf(home))
  fs.mkdirSync(registryOf(home))
  t.throws(() => lock(50).take(), {
    message: /^the workspace cannot be locked: .*workspace_registry/,
  })
})

t.test('of many who take it at once, one has it', async (t) => {
  const { peers, locks } = await serversOf(t, ...[1, 2, 3].map((n) => `key-number-${n}-0123456789`))
  const all = await Promise.all(peers.map((peer, i) => write(peer, `f${i}`)))
  const codes = all.map(({ body }) => body.error?.code ?? 0).toSorted()
  t.strictSame(codes, [-32003, -32003, 0])
  t.equal(locks().length, 1)
})
