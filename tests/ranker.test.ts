import t from 'tap'
import { selectTools, wordsIn } from '../tai.ts'

t.test('wordsIn takes names apart and ends off', async (t) => {
  const cases: [string, string[]][] = [
    ['read_file', ['read', 'file']],
    ['searchIssues', ['search', 'issu']],
    ['Reading the files', ['read', 'fil']],
    ['日本語 検索', ['日本語', '検索']],
    ['!?', []],
  ]
  for (const [text, expected] of cases) t.strictSame(wordsIn(text), expected, text)
})

t.test('rank finds the tool that a few words describe', async (t) => {
  const tools = [
    { name: 'git_commit', description: 'Stage the named paths and commit.' },
    { name: 'git_log', description: 'Recent commits.' },
    { name: 'web_fetch', description: 'Read a public web page as Markdown.' },
    { name: 'text_diff', description: 'Unified diff of two texts or two files.' },
  ]
  const names = (query: string, limit = 2) =>
    selectTools(query, tools)
      .slice(0, limit)
      .map((tool) => tool.name)
  t.strictSame(names('download a web page'), ['web_fetch'])
  t.strictSame(names('commit'), ['git_commit', 'git_log'])
  t.strictSame(names('compare two files diff', 1), ['text_diff'])
  t.strictSame(names('zebra'), [])
  t.strictSame(names(''), [])
})
