import t from 'tap'
import { selectTools } from '../tai.ts'

t.test('rank finds the tool that a few words describe', async (t) => {
  const tools = [
    { name: 'git_commit', description: 'Stage the named paths and commit.' },
    { name: 'git_log', description: 'Recent commits.' },
    { name: 'web_fetch', description: 'Read a public web page as Markdown.' },
    { name: 'text_diff', description: 'Unified diff of two texts or two files.' },
    { name: 'searchIssues', description: '日本語 検索' },
  ]
  const names = (query: string, limit = 2) =>
    selectTools(query, tools)
      .slice(0, limit)
      .map((tool) => tool.name)
  t.strictSame(names('download a web page'), ['web_fetch'])
  t.strictSame(names('commit'), ['git_commit', 'git_log'])
  t.strictSame(names('compare two files diff', 1), ['text_diff'])
  t.strictSame(names('an issue'), ['searchIssues'], 'camelCase is two words')
  t.strictSame(names('COMMITTING'), ['git_commit', 'git_log'], 'ends and case do not count')
  t.strictSame(names('comm'), ['git_commit', 'git_log'], 'nor is a word needed whole')
  t.strictSame(names('検索'), ['searchIssues'])
  t.strictSame(names('text" OR *'), ['text_diff'], 'signs are no syntax')
  for (const none of ['zebra', '', 'the', '!?', 'co']) t.strictSame(names(none), [], none)
})
