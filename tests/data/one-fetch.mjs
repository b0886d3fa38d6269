// What the bench holds a one-shot of tai against: stdin to a model, its answer to stdout, with
// what Node has built in.
let prompt = ''
for await (const chunk of process.stdin) prompt += chunk
const reply = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.OPENAI_API_KEY}` },
  body: JSON.stringify({ model: 'fake-model', stream: true, messages: [{ role: 'user', content: prompt }] }),
})
let rest = ''
for await (const text of reply.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split('\n')
  rest = lines.pop()
  for (const line of lines) {
    if (!line.startsWith('data: {')) continue
    process.stdout.write(JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '')
  }
}
process.stdout.write('\n')
