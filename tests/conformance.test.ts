// `npm run conformance`, whole: the official suite for each of two servers and both eras, and for the client.
import t from 'tap'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('conformance/run.ts', import.meta.url))

t.test('the official conformance suite finds what its list says, and nothing else', (t) => {
  execFile(process.execPath, [program], { timeout: 100_000 }, (error, out) => {
    t.equal(error, null, out)
    t.match(
      out,
      /fixtures 2025-11-25 17 of 33 pass, binary 2025-11-25 8 of 33 pass, fixtures 2026-07-28 20 of 50 pass, binary 2026-07-28 11 of 50 pass, client 11 of 11 pass; 0 surprises/,
    )
    t.end()
  })
})
