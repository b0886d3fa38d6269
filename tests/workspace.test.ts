import t from 'tap'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { Workspace } from '../tai.ts'

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
      ['src/a.txt/x', /ENOTDIR/],
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

t.test('a file is opened as the regular file it is, or not at all', async (t) => {
  const { workspace } = await makeTree(t.testdir())
  const handle = await workspace.openForRead('in-file')
  t.equal(await handle.readFile('utf8'), 'a')
  await handle.close()
  await t.rejects(workspace.openForRead('gone'), { message: /ENOENT.*gone/ })
  await t.rejects(workspace.openForRead('src'), { message: /regular file/ })
  await t.rejects(workspace.openForRead('/dev/zero'), { message: /outside/ })
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
