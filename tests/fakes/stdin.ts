// A small program for tests of §input: reads its stdin as tai does and prints what came.
// Arguments: `prompted` or `alone`, the milliseconds to wait, those until an abort.

import { explain, readStdin, sha256 } from '../../tai.ts'

const [mode, wait = '10000', abort] = process.argv.slice(2)
const signal =
  abort === undefined ? new AbortController().signal : AbortSignal.timeout(Number(abort))
try {
  const say = (line: string) => void process.stderr.write(`${line}\n`)
  const text = await readStdin(mode === 'prompted' ? Number(wait) : undefined, say, signal)
  const shown = text.length > 100 ? sha256(text) : text
  process.stdout.write(`${JSON.stringify({ text: shown })}\n`)
} catch (error) {
  process.stdout.write(`${signal.aborted ? 'aborted' : explain(error)}\n`)
}
