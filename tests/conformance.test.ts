// `npm run conformance`, whole: the official suite takes a few seconds for each of two servers, and some for the client.
import t from 'tap'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('conformance/run.ts', import.meta.url))

t.test('the official conformance suite finds what its list says, and nothing else', (t) => {
  execFile(process.execPath, [program], { timeout: 100_000 }, (error, out) => {
    t.equal(error, null, out)
    t.match(out, /fixtures 14 of 33 pass, binary 7 of 33 pass, client 11 of 11 pass; 0 surprises/)
    t.end()
  })
})
