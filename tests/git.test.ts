import t from 'tap'
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { GIT_TOOLS, Redactor, Workspace } from '../tai.ts'
import { makeWorld } from './fakes/vault.ts'
import { filled, row } from './fakes/bench.ts'
import type { JsonObject, ToolContext, ToolOutput } from '../tai.ts'

const AUTHOR = {
  GIT_AUTHOR_DATE: '2026-01-02T03:04:05Z',
  GIT_COMMITTER_DATE: '2026-01-02T03:04:05Z',
}

/** A workspace, with git looking at no configuration but the given one. */
class Bench {
  readonly root: string
  readonly home: string
  readonly env: Record<string, string>
  #context: ToolContext | undefined
  constructor(
    dir: string,
    config = '[user]\nname = Ada\nemail = ada@example.com\n[init]\ndefaultBranch = main\n',
  ) {
    const base = fs.realpathSync(dir)
    this.root = path.join(base, 'work')
    this.home = path.join(base, 'home')
    fs.mkdirSync(this.root, { recursive: true })
    fs.mkdirSync(this.home, { recursive: true })
    fs.writeFileSync(path.join(this.home, '.gitconfig'), config)
    this.env = {
      PATH: process.env['PATH'] ?? '',
      HOME: this.home,
      GIT_CONFIG_NOSYSTEM: '1',
      ...AUTHOR,
    }
  }

  git(...args: string[]): string {
    const done = spawnSync('git', args, { cwd: this.root, env: this.env, encoding: 'utf8' })
    if (done.status !== 0) throw new Error(`git ${args.join(' ')}: ${done.stderr}`)
    return done.stdout
  }

  write(name: string, text: string, mode = 0o644): void {
    const file = path.join(this.root, name)
    fs.mkdirSync(path.dirname(file), { recursive: true })
    fs.writeFileSync(file, text, { mode })
  }

  commit(name: string, text: string, subject: string): void {
    this.write(name, text)
    this.git('add', '-A')
    this.git('commit', '-qm', subject)
  }

  async context(): Promise<ToolContext> {
    const world = makeWorld(path.join(this.root, '.own'), { env: this.env, cwd: this.root })
    const workspace = new Workspace(this.root, world.home)
    return { world, workspace, store: { redactor: new Redactor() } } as unknown as ToolContext
  }

  /** Calls a tool as the toolbox would: with the defaults of its schema filled in. */
  async call(name: string, args: JsonObject = {}): Promise<ToolOutput> {
    this.#context ??= await this.context()
    return row(name).run(filled(name, args), this.#context, new AbortController().signal)
  }
}

/** A repository on `main` with one commit of `a.txt`. */
function makeRepository(dir: string): Bench {
  const bench = new Bench(dir)
  bench.git('init', '-q')
  bench.commit('a.txt', 'one\n', 'first')
  return bench
}

t.test('five tools, every parameter described, branches judged by what they do', (t) => {
  t.strictSame(
    GIT_TOOLS.map(({ name }) => name),
    ['git_status', 'git_diff', 'git_log', 'git_commit', 'git_branch'],
  )
  for (const { name, parameters } of GIT_TOOLS)
    for (const [key, row] of Object.entries(parameters['properties'] as Record<string, JsonObject>))
      t.type(row['description'], 'string', `${name}.${key}`)
  const judge = GIT_TOOLS.at(-1)?.judge
  t.match(judge?.({ action: 'list' }), { readOnly: true, securityTier: 'Low' })
  t.match(judge?.({ action: 'switch' }), { readOnly: false, destructive: false })
  t.match(judge?.({ action: 'delete' }), { destructive: true, securityTier: 'Medium' })
  t.end()
})

t.test('status of a repository without commits, clean, and full of changes', async (t) => {
  const bench = new Bench(t.testdir())
  bench.git('init', '-q')
  const state = async (args = {}) => (await bench.call('git_status', args)).text
  t.equal(await state(), '## No commits yet on main\n')
  for (const name of ['kept', 'gone', 'old name', 'both']) bench.write(name, `${name}\n`.repeat(9))
  bench.git('add', '-A')
  bench.git('commit', '-qm', 'first')
  t.equal(await state(), '## main\n')
  bench.git('mv', 'old name', 'new name')
  bench.git('rm', '-q', 'gone')
  bench.write('both', 'x\n')
  bench.git('add', 'both')
  bench.write('both', 'y\n')
  bench.write('sub/neu ü\n', '')
  t.equal(
    await state(),
    ['## main', 'MM both', 'D  gone', 'R  "old name" -> "new name"', '?? sub/', ''].join('\n'),
  )
  t.match(await state({ path: 'sub' }), /main\n\?\? sub\/\n$/)
  bench.git('add', '-N', '.')
  t.match(
    (await bench.call('git_status')).text,
    / A "sub\/neu ü\\n"\n$/,
    'a line break in a name is written out',
  )
})

t.test('status says upstream, conflicts and detached heads', async (t) => {
  const bench = makeRepository(t.testdir())
  bench.git('clone', '-q', '--bare', '.', '../origin.git')
  bench.git('remote', 'add', 'origin', '../origin.git')
  bench.git('fetch', '-q')
  bench.git('branch', '-q', '-u', 'origin/main')
  bench.commit('a.txt', 'two\n', 'second')
  const { text } = await bench.call('git_status')
  t.match(text, /^## main\.\.\.origin\/main \[ahead 1\]\n/)
  bench.git('checkout', '-q', '-b', 'topic', 'HEAD~1')
  bench.commit('a.txt', 'three\n', 'third')
  t.throws(() => bench.git('merge', '-q', 'main'))
  const merging = await bench.call('git_status')
  t.match(merging.text, /^## topic\nUU a.txt/)
  bench.git('merge', '--abort')
  t.throws(() => bench.git('rebase', '-q', 'main'))
  t.match((await bench.call('git_status')).text, /^## HEAD \(no branch\)\n/)
})

t.test('diffs of the tree, the index and revisions', async (t) => {
  const bench = makeRepository(t.testdir())
  t.equal((await bench.call('git_diff')).text, '(nothing)')
  bench.commit('sub/b.txt', 'b\n', 'second')
  bench.write('a.txt', 'staged\n')
  bench.git('add', 'a.txt')
  bench.write('a.txt', 'tree\n')
  const cases: [args: JsonObject, shape: RegExp][] = [
    [{}, /^diff --git a\/a.txt b\/a.txt[^]*\n-staged\n\+tree\n$/],
    [{ staged: true }, /\n-one\n\+staged\n$/],
    [{ from: 'HEAD' }, /\n-one\n\+tree\n$/],
    [{ from: 'HEAD~1', to: 'HEAD' }, /sub\/b.txt[^]*\+b\n$/],
    [{ from: 'HEAD~1..HEAD', stat: true }, /^ sub\/b.txt \| 1 \+\n 1 file changed/],
    [{ from: 'HEAD~1', to: 'HEAD', path: 'sub/b.txt' }, /\+b\n$/],
    [{ path: 'sub' }, /^\(nothing\)$/],
  ]
  for (const [args, shape] of cases)
    t.match((await bench.call('git_diff', args)).text, shape, JSON.stringify(args))
  bench.git('config', 'diff.noprefix', 'true')
  t.match((await bench.call('git_diff')).text, /^diff --git a\/a.txt b\/a.txt/)
})

t.test('the log lists commits, or shows one', async (t) => {
  const bench = new Bench(t.testdir())
  bench.git('init', '-q')
  await t.rejects(bench.call('git_log'), { message: /does not have any commits yet/ })
  for (const n of [1, 2, 3]) bench.commit(`${n}.txt`, `${n}\n`, `commit ${n}`)
  bench.git('tag', 'v1')
  const { text } = await bench.call('git_log', { limit: 2 })
  t.match(
    text,
    /^[0-9a-f]{12} {2}2026-01-02T03:04:05\S+ {2}Ada {2}\(HEAD -> main, tag: v1\) commit 3\n.*commit 2\n$/,
  )
  t.match((await bench.call('git_log', { path: '1.txt' })).text, /^[^\n]*commit 1\n$/)
  const shown = await bench.call('git_log', { show: true, rev: 'v1~1' })
  const elsewhere = { show: true, rev: 'v1~1', path: '1.txt' }
  t.equal((await bench.call('git_log', elsewhere)).text, '(nothing)')
  t.match(shown.text, /^commit [0-9a-f]{40}\nAuthor: Ada[^]*commit 2[^]*2.txt \| 1 \+[^]*\n\+2\n$/)
})

t.test('commits stage what they are told to, and say what they did', async (t) => {
  const bench = makeRepository(t.testdir())
  const nothing = bench.call('git_commit', { message: 'x' })
  await t.rejects(nothing, { message: /nothing (added )?to commit/ })
  bench.write('b[1].txt', 'b\n')
  bench.write('b1.txt', 'no\n')
  fs.rmSync(path.join(bench.root, 'a.txt'))
  fs.symlinkSync('/etc/passwd', path.join(bench.root, 'link'))
  const paths = ['b[1].txt', 'a.txt', 'link']
  const { text } = await bench.call('git_commit', { message: 'Änderung\n\n# kept\n', paths })
  t.match(text, /^\[main [0-9a-f]{12}\] Änderung\n 3 files changed/)
  t.equal(bench.git('log', '-1', '--format=%B').trim(), 'Änderung\n\n# kept')
  t.equal(bench.git('ls-files'), 'b[1].txt\nlink\n')
  t.equal(bench.git('cat-file', '-p', 'HEAD:link'), '/etc/passwd')
  bench.write('.own/vault.db', 'secret')
  bench.write('.gitignore', 'junk\n')
  bench.write('junk', '')
  t.match(await bench.call('git_commit', { message: 'rest', all: true }), {
    text: /\] rest\n 2 files/,
  })
  t.equal(
    bench.git('ls-files'),
    '.gitignore\nb1.txt\nb[1].txt\nlink\n',
    'the home of tai stays out',
  )
  await t.rejects(bench.call('git_commit', { message: 'x', paths: ['junk'] }), {
    message: /ignored/,
  })
  bench.write('c.txt', '')
  await t.rejects(bench.call('git_commit', { message: ' \n', paths: ['c.txt'] }), {
    message: /empty commit message/,
  })
  await t.rejects(bench.call('git_commit', { message: 'x', paths: ['../y'] }), {
    message: /outside/,
  })
})

t.test('a commit without an identity says how to set one', async (t) => {
  const bench = new Bench(t.testdir(), '')
  bench.git('init', '-q')
  bench.write('a.txt', '')
  const failed = bench.call('git_commit', { message: 'x', all: true })
  await t.rejects(failed, { message: /git commit: /, hint: /user\.name/ })
})

t.test('branches are listed, created, switched to and deleted', async (t) => {
  const bench = new Bench(t.testdir())
  bench.git('init', '-q')
  t.match((await bench.call('git_branch', { action: 'list' })).text, /^\(nothing\)$/)
  bench.commit('a.txt', 'one\n', 'first')
  const act = (action: string, name: string) => bench.call('git_branch', { action, name })
  t.equal((await act('create', 'topic/x')).text, 'create: topic/x, done')
  t.equal((await act('switch', 'topic/x')).text, 'switch: topic/x, done')
  bench.commit('a.txt', 'two\n', 'second')
  const { text } = await bench.call('git_branch', { action: 'list' })
  t.match(text, /^ {2}main +[0-9a-f]{12} first\n\* topic\/x +[0-9a-f]{12} second\n$/)
  bench.write('a.txt', 'local\n')
  await t.rejects(act('switch', 'main'), { message: /would be overwritten/, hint: /stash/ })
  bench.git('checkout', '-q', '.')
  await act('switch', 'main')
  await t.rejects(act('delete', 'topic/x'), { message: /not fully merged/ })
  bench.git('merge', '-q', 'topic/x')
  t.equal((await act('delete', 'topic/x')).text, 'delete: topic/x, done')
  for (const name of ['-f', '--help', 'a..b', 'a b', 'HEAD', ''])
    await t.rejects(act('create', name), { message: /not a valid branch name/ }, name)
  await t.rejects(act('switch', 'nowhere'), { message: /invalid reference/ })
})

t.test('nothing that a model gives becomes an option, and faults are explained', async (t) => {
  const bench = makeRepository(t.testdir())
  const cases: [name: string, args: JsonObject, message: RegExp][] = [
    ['git_diff', { from: '--output=x' }, /not a revision/],
    ['git_diff', { from: 'HEAD', to: '-R' }, /not a revision/],
    ['git_diff', { from: '' }, /not a revision/],
    ['git_log', { rev: '--all' }, /not a revision/],
    ['git_log', { rev: 'HEAD:a.txt', show: true }, /not a revision/],
    ['git_diff', { from: 'HEAD', to: ':a.txt' }, /not a revision/],
    ['git_log', { rev: 'HEAD^{tree}', show: true }, /git show: /],
    ['git_log', { rev: '5626abf', show: true }, /git show: /], // the blob of a.txt
    ['git_diff', { from: '5626abf', to: '5626abf' }, /git diff: /],
    ['git_log', { rev: 'gone' }, /git log: .*gone/],
    ['git_log', { rev: 'gone', show: true }, /git show: .*gone/],
    ['git_status', { path: '..' }, /outside the workspace/],
    ['git_status', { path: 'gone/deep/x' }, /no folder/],
  ]
  for (const [name, args, message] of cases)
    await t.rejects(bench.call(name, args), { name: 'TaiError', message }, `${message}`)
  t.notOk(fs.existsSync(path.join(bench.root, 'x')))

  fs.rmSync(path.join(bench.root, '.git'), { recursive: true })
  bench.env['GIT_CEILING_DIRECTORIES'] = path.dirname(bench.root)
  await t.rejects(bench.call('git_status'), { message: /not a git repository/ })
  bench.env['PATH'] = '/nowhere'
  await t.rejects(bench.call('git_status'), { message: /cannot start git: no such/ })
})

const skip = process.getuid?.() === 0 ? false : 'only root can give files away'
t.test('a repository of another user is named as such', { skip }, async (t) => {
  const bench = makeRepository(t.testdir())
  for (const name of ['', '.git']) fs.chownSync(path.join(bench.root, name), 12_345, 12_345)
  await t.rejects(bench.call('git_status'), {
    message: /dubious ownership/,
    hint: /safe\.directory/,
  })
})

/** A repository whose configuration tries to run a program at every turn; each leaves a file. */
function makeHostile(dir: string): { bench: Bench; ran: () => string[] } {
  const bench = makeRepository(dir)
  bench.write('clean.txt', 'x\n')
  bench.write('.gitattributes', '*.txt filter=evil diff=evil\n')
  bench.git('add', '-A')
  bench.git('commit', '-qm', 'attributes')
  bench.git('branch', 'other')
  const traps = path.join(bench.home, 'ran')
  fs.mkdirSync(traps)
  const trap = (name: string) => `touch ${traps}/${name}; cat 2>/dev/null; true`
  const config = {
    'core.fsmonitor': trap('fsmonitor'),
    'core.pager': trap('pager'),
    'core.editor': trap('editor'),
    'core.sshCommand': trap('ssh'),
    'core.askPass': trap('askpass'),
    'pager.log': trap('pager-log'),
    'pager.diff': trap('pager-diff'),
    'diff.external': trap('external'),
    'diff.evil.textconv': trap('textconv'),
    'diff.evil.command': trap('driver'),
    'filter.evil.clean': trap('clean'),
    'filter.evil.smudge': trap('smudge'),
    'filter.evil.required': 'true',
    'filter.second.process': trap('process'),
    'gpg.program': trap('gpg'),
    'commit.gpgSign': 'true',
    'log.showSignature': 'true',
    'core.hooksPath': 'planted',
    'sequence.editor': trap('sequence'),
    'format.pretty': '%G? %s',
    'credential.helper': `!${trap('credential')}`,
  }
  for (const [key, value] of Object.entries(config)) bench.git('config', key, value)
  for (const hook of [
    'pre-commit',
    'commit-msg',
    'post-commit',
    'post-checkout',
    'post-index-change',
    'fsmonitor-watchman',
    'reference-transaction',
    'prepare-commit-msg',
  ])
    bench.write(`planted/${hook}`, `#!/bin/sh\ntouch ${traps}/hook-${hook}\n`, 0o755)
  bench.write('a.txt', 'changed\n')
  fs.utimesSync(path.join(bench.root, 'clean.txt'), 1, 1) // the index must look at its content again
  fs.rmSync(traps, { recursive: true })
  fs.mkdirSync(traps)
  return { bench, ran: () => fs.readdirSync(traps) }
}

t.test('a hostile repository runs nothing', async (t) => {
  const { bench, ran } = makeHostile(t.testdir())
  const filtered = { message: /filters in \.git\/config/, hint: /shell_exec/ }
  await t.rejects(bench.call('git_status'), filtered)
  await t.rejects(bench.call('git_commit', { message: 'x', all: true }), filtered)
  await t.rejects(bench.call('git_branch', { action: 'switch', name: 'other' }), filtered)
  t.strictSame(ran(), [])
  for (const name of ['evil', 'second']) bench.git('config', '--remove-section', `filter.${name}`)
  t.match((await bench.call('git_status')).text, / M a\.txt\n\?\? planted\/\n$/)
  t.match((await bench.call('git_diff')).text, /\+changed/)
  await bench.call('git_diff', { from: 'HEAD~1', stat: true })
  await bench.call('git_diff', { staged: true })
  await bench.call('git_log')
  t.match((await bench.call('git_log', { show: true })).text, /gitattributes/)
  await bench.call('git_branch', { action: 'list' })
  await bench.call('git_branch', { action: 'create', name: 'fresh' })
  await bench.call('git_branch', { action: 'delete', name: 'fresh' })
  await bench.call('git_commit', { message: 'x', all: true })
  await bench.call('git_branch', { action: 'switch', name: 'other' })
  t.strictSame(ran(), [])
  bench.git('status') // the traps are real
  t.not(ran().length, 0)
})

t.test('a filter is found under any name and in any file', async (t) => {
  const bench = makeRepository(t.testdir())
  const trap = path.join(bench.home, 'ran')
  const config = path.join(bench.root, '.git/config')
  const plain = fs.readFileSync(config, 'utf8')
  bench.write('.gitattributes', '* filter=\n')
  const filters = {
    'an empty name': `[filter ""]\nclean = touch ${trap}; cat\n`,
    'no name': `[filter]\nclean = touch ${trap}; cat\n`,
    'a long-running one': `[FILTER "a.b c"]\nProcess = touch ${trap}\n`,
  }
  const ways: Record<string, (text: string) => void> = {
    local: (text) => fs.writeFileSync(config, plain + text),
    included: (text) => {
      fs.writeFileSync(config, `${plain}[include]\npath = ../more\n`)
      bench.write('more', text)
    },
    worktree: (text) => {
      fs.writeFileSync(config, `${plain}[extensions]\nworktreeConfig = true\n`)
      bench.write('.git/config.worktree', text)
    },
  }
  for (const [way, put] of Object.entries(ways))
    for (const [name, text] of Object.entries(filters)) {
      put(text)
      fs.utimesSync(path.join(bench.root, 'a.txt'), 1, 1)
      await t.rejects(bench.call('git_status'), { message: /filters in/ }, `${name}, ${way}`)
    }
  t.notOk(fs.existsSync(trap))
})

t.test('nothing of a submodule runs, and its new commit is staged', async (t) => {
  const bench = makeRepository(t.testdir())
  const trap = path.join(bench.home, 'ran')
  bench.git('branch', 'other')
  bench.git('clone', '-q', '.', '../module')
  bench.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', '../module', 'sub')
  bench.git('commit', '-qm', 'with a submodule')
  bench.git('-C', 'sub', 'config', 'filter.evil.clean', `touch ${trap}; cat`)
  bench.write('.git/modules/sub/info/attributes', '* filter=evil\n')
  bench.git('config', 'submodule.sub.ignore', 'none')
  bench.git('config', 'diff.ignoreSubmodules', 'none')
  bench.git('config', 'status.submoduleSummary', 'true')
  bench.git('config', 'diff.submodule', 'diff')
  bench.git('config', 'submodule.recurse', 'true')
  let time = 0
  const touch = () => fs.utimesSync(path.join(bench.root, 'sub/a.txt'), ++time, time)
  const call = async (name: string, args: JsonObject = {}) => {
    touch() // so that git must look at its content again
    const { text } = await bench.call(name, args)
    t.notOk(fs.existsSync(trap), name)
    return text
  }
  t.match(await call('git_status'), /^## main\n$/)
  await t.rejects(call('git_commit', { message: 'x', all: true }), { message: /nothing to commit/ })
  bench.write('b.txt', 'b\n')
  t.match(await call('git_commit', { message: 'x', paths: ['b.txt', 'sub'] }), /1 file changed/)
  const inner = ['-C', 'sub', '-c', 'filter.evil.clean=cat']
  bench.git(...inner, 'commit', '--allow-empty', '-qm', 'inner')
  fs.rmSync(trap, { force: true })
  t.match(await call('git_diff'), /\+Subproject commit/)
  t.match(await call('git_commit', { message: 'moved', all: true }), /1 file changed/)
  t.match(await call('git_log', { show: true }), /\+Subproject commit/)
  await call('git_branch', { action: 'list' })
  await call('git_branch', { action: 'switch', name: 'other' })
  bench.git('switch', '-q', '--no-recurse-submodules', 'main')
  touch()
  bench.git('status')
  t.ok(fs.existsSync(trap), 'the trap is real')
})

t.test('a .git that leads to another repository is refused', async (t) => {
  const bench = makeRepository(t.testdir())
  bench.git('worktree', 'add', '-q', '../linked', '-b', 'linked')
  bench.git('clone', '-q', '.', '../module')
  bench.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', '../module', 'sub')
  bench.git('init', '-q', '--separate-git-dir', 'apart', 'nested')
  const base = path.dirname(bench.root)
  /** The tools in that folder of the test, with its `.git` as given. */
  const at = (folder: string, put?: (dot: string) => void) => {
    const other = Object.assign(new Bench(base), { root: path.join(base, folder), env: bench.env })
    fs.mkdirSync(other.root, { recursive: true })
    put?.(path.join(other.root, '.git'))
    return other.call('git_log')
  }
  const target = path.join(bench.root, '.git')
  for (const folder of ['work', 'work/sub', 'linked', 'module'])
    t.match((await at(folder)).text, / first$/m, folder)
  t.match((await bench.call('git_status', { path: 'nested' })).text, /No commits/, 'inside')
  const planted: Record<string, (dot: string) => void> = {
    file: (dot) => fs.writeFileSync(dot, `gitdir: ${target}\n`),
    link: (dot) => fs.symlinkSync(target, dot),
    worktree: (dot) => fs.writeFileSync(dot, `gitdir: ${target}/worktrees/linked\n`),
    submodule: (dot) => fs.writeFileSync(dot, `gitdir: ${target}/modules/sub\n`),
    common: (dot) => {
      fs.mkdirSync(dot)
      fs.writeFileSync(path.join(dot, 'HEAD'), 'ref: refs/heads/main\n')
      fs.writeFileSync(path.join(dot, 'commondir'), `${target}\n`)
      fs.writeFileSync(path.join(dot, 'gitdir'), `${dot}\n`)
    },
  }
  for (const [name, put] of Object.entries(planted))
    await t.rejects(at(`planted-${name}`, put), { message: /leads to/ }, name)
})

t.test('a partial clone fetches nothing', async (t) => {
  const bench = makeRepository(t.testdir())
  const trap = path.join(bench.home, 'ran')
  bench.commit('a.txt', 'two\n', 'second')
  bench.git('clone', '-q', '--bare', '.', '../origin.git')
  const missing = bench.git('rev-parse', 'HEAD~1:a.txt').trim()
  fs.rmSync(path.join(bench.root, '.git/objects', missing.slice(0, 2), missing.slice(2)))
  const config = {
    'core.repositoryFormatVersion': '1',
    'extensions.partialClone': 'origin',
    'remote.origin.url': '../origin.git',
    'remote.origin.promisor': 'true',
    'remote.origin.uploadpack': `touch ${trap}; git-upload-pack`,
  }
  for (const [key, value] of Object.entries(config)) bench.git('config', key, value)
  await t.rejects(bench.call('git_diff', { from: 'HEAD~1' }), { message: /git diff: / })
  t.notOk(fs.existsSync(trap))
  bench.git('diff', 'HEAD~1')
  t.ok(fs.existsSync(trap), 'the trap is real')
})

t.test('a work tree elsewhere and a planted bare repository are refused', async (t) => {
  const bench = makeRepository(t.testdir())
  bench.git('config', 'core.worktree', bench.home)
  await t.rejects(bench.call('git_status'), {
    message: /leads to .* work tree /,
    hint: /shell/,
  })
  bench.git('config', '--unset', 'core.worktree')
  bench.git('init', '-q', '--bare', 'planted.git')
  await t.rejects(bench.call('git_status', { path: 'planted.git' }), { message: /bare repository/ })
})

t.test('a filter of the person runs, unless the repository defines it anew', async (t) => {
  const config = '[user]\nname=Ada\nemail=a@b\n[filter "up"]\nclean = tr a-z A-Z\n'
  const bench = new Bench(t.testdir(), config)
  bench.git('init', '-q')
  bench.write('.gitattributes', '*.txt filter=up\n')
  bench.commit('a.txt', 'one\n', 'first')
  fs.utimesSync(path.join(bench.root, 'a.txt'), 1, 1)
  t.match((await bench.call('git_status')).text, /^## \w+\n$/, 'cleaned as the person wants')
  bench.git('config', 'filter.up.clean', `touch ${bench.home}/ran; cat`)
  await t.rejects(bench.call('git_status'), { message: /filters in/ })
  t.notOk(fs.existsSync(path.join(bench.home, 'ran')))
})

t.test('a configuration too long to be read whole is refused', async (t) => {
  const bench = makeRepository(t.testdir())
  const filler = Array.from(
    { length: 60 },
    (_, i) => `[filter "f${i}${'x'.repeat(90_000)}"]\nclean = x\n`,
  )
  fs.appendFileSync(path.join(bench.root, '.git/config'), filler.join(''))
  await t.rejects(bench.call('git_status'), { message: /filters in/ })
})

t.test('a repository around the workspace is seen only inside of it', async (t) => {
  const bench = makeRepository(t.testdir())
  bench.commit('sub/b.txt', 'b\n', 'second')
  const inner = new Bench(bench.root)
  t.equal(inner.root, path.join(bench.root, 'work'))
  bench.write('work/in.txt', '')
  bench.write('out.txt', '')
  t.match((await inner.call('git_status')).text, /main\n\?\? work\/\n$/)
  await inner.call('git_commit', { message: 'inner', all: true })
  t.equal(bench.git('ls-files'), 'a.txt\nsub/b.txt\nwork/in.txt\n')
  t.match((await inner.call('git_log')).text, /^[^\n]*inner\n$/)
})
