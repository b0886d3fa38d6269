// Runs tap: one line for a file that passed, the whole block of one that failed, and last the plain
// line that any log reader counts: "N passed, N failed".
//
//   node tests/run.mjs [--coverage] [FILE...] [options of tap]
import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'

const wanted = process.argv.slice(2)
const coverage = wanted.includes('--coverage')
// Stripping the types of a 500 kB file costs 0.3 s in every process; the compile cache keeps the
// result. Coverage read through it is coarser, so `--coverage` goes without. The path is absolute:
// a program that a test starts in another folder must not begin a cache there.
const env = coverage
  ? process.env
  : { ...process.env, NODE_COMPILE_CACHE: resolve('node_modules/.cache/node') }
const args = [
  '--reporter=tap',
  '--jobs=2',
  ...(coverage ? [] : ['--disable-coverage']),
  ...wanted.filter((arg) => arg !== '--coverage'),
]
const tap = spawn(process.execPath, ['node_modules/tap/dist/esm/run.mjs', ...args], {
  stdio: ['ignore', 'pipe', 'inherit'],
  env,
})
const ended = new Promise((done) => tap.once('close', (code) => done(code ?? 1)))

// A file's block is held back until its verdict is known; what tap says for itself ends one too.
const count = { pass: 0, fail: 0, skip: 0, todo: 0 }
let held = []
for await (const line of createInterface({ input: tap.stdout })) {
  held.push(line)
  if (line.startsWith('ok ')) console.log(line)
  else if (line === '  ...' || !/^(ok |not ok|\s|# Subtest|TAP version|\}|$)/.test(line)) show(line)
  else continue
  held = []
}
if (held.length > 0) show('')
const code = await ended
if (code !== 0 && count.fail === 0) count.fail = 1
if (code === 0 && count.pass === 0)
  process.exitCode = 1 // a run without tests proves nothing
else process.exitCode = code
const skipped = count.skip + count.todo
console.log(
  `${count.pass} passed, ${count.fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
)

function indent(line = '') {
  return line.search(/\S/)
}

/** Prints what is held, of a failed file only what failed in it. */
function show(last) {
  const lines = held.filter((line) => line !== '' && !/^\s+(ok |1\.\.)/.test(line))
  const isEmpty = (i) => /^\s*# Subtest/.test(lines[i]) && indent(lines[i + 1]) <= indent(lines[i])
  console.log(lines.filter((_, i) => !isEmpty(i)).join('\n'))
  if (!last.startsWith('# { total: ')) return
  for (const [, name, number] of last.matchAll(/(\w+): (\d+)/g)) count[name] = Number(number)
}
