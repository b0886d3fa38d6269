// How tai is expected to complain, whatever is wrong: one line, one hint, one exit code.
/* oxlint-disable no-control-regex -- control characters are looked for */
import type { Test } from 'tap'
import type { Ran } from './tai.ts'

/** One line that says what is wrong and one that says what to do; nothing of the program's inside. */
// oxlint-disable-next-line max-params -- read as a sentence: this run complains with this code, in these words
export function complains(
  t: Test,
  run: Pick<Ran, 'code' | 'out' | 'err'>,
  code: number,
  words: RegExp,
  name: string,
): void {
  t.equal(run.code, code, `${name}: exit code, ${run.err}`)
  t.match(run.err, words, `${name}: what is wrong`)
  t.match(run.err, /^tai: [^\n]+\n {2}[^ \n][^\n]*\n$/, `${name}: one line and one hint`)
  t.notMatch(
    run.err,
    /\n\s+at |internal error|ERR_|node:|[\u0000-\u0009\u000b-\u001f]/,
    `${name}: no insides`,
  )
  t.equal(run.out, '', `${name}: nothing on stdout`)
}
