import t from 'tap'
import { InvalidError, isNested, MCP_DEPTH_MAX, parseObject, Reader, schemaCheck } from '../tai.ts'

t.test('a Reader gives what is there and names the place of what is not', async (t) => {
  const reader = new Reader(
    { name: 'x', n: 3, yes: true, list: [1, 'b'], inner: { deep: null } },
    'file',
  )
  t.equal(reader.at('name').string(), 'x')
  t.equal(reader.at('yes').boolean(), true)
  t.same(reader.at('inner').object(), { deep: null })
  t.equal(reader.at('list').list()[1]?.string(), 'b')
  t.equal(
    reader.at('none').optional((it) => it.string()),
    undefined,
  )
  const wrong: [() => unknown, string][] = [
    [() => reader.at('n').string(), 'file.n is not a string'],
    [() => reader.at('name').boolean(), 'file.name is not true or false'],
    [() => reader.at('list').list()[0]?.string(), 'file.list[0] is not a string'],
    [() => reader.at('inner').at('deep').boolean(), 'file.inner.deep is not true or false'],
    [() => reader.at('none').object(), 'file.none is missing, not an object'],
    [() => reader.at('list').object(), 'file.list is not an object'],
    [() => reader.at('yes').list(), 'file.yes is not a list'],
  ]
  for (const [read, message] of wrong) t.throws(read, new InvalidError(message))
})

t.test('parseObject takes objects only', async (t) => {
  t.same(parseObject('{"a":1}'), { a: 1 })
  for (const text of ['[1]', 'null', '"x"', '{', '']) t.equal(parseObject(text), undefined, text)
})

t.test('a schema says what is wrong with a value, and where', async (t) => {
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
  const check = await schemaCheck(schema)
  t.equal(check({ n: 7 }), undefined)
  t.match(check({ n: 'x' }), {
    at: '/n',
    why: 'Instance type "string" is invalid. Expected "integer"',
  })
  t.match(check({}), { at: '', why: 'Instance does not have required property "n"' })
  t.strictSame(Object.getOwnPropertyNames(schema), ['type', 'properties', 'required'])
})

t.test('a schema that no value can be held against is refused before one is', async (t) => {
  const deep = (levels: number) => JSON.parse(`${'{"not":'.repeat(levels)}{}${'}'.repeat(levels)}`)
  const broken: [object, RegExp][] = [
    [{ properties: { a: { pattern: '(' } } }, /Invalid regular expression/],
    [{ properties: { a: { patternProperties: { '[': {} } } } }, /Invalid regular expression/],
    [{ items: { $ref: '#/nowhere' } }, /"#\/nowhere" leads nowhere/],
    [{ $ref: 'https://elsewhere.example/schema' }, /leads nowhere/],
    [{ $ref: '#' }, /./],
    [{ required: 5 }, /./],
    [deep(3_000), /./],
  ]
  for (const [schema, message] of broken) {
    const refused = await schemaCheck(schema as never).catch((error: unknown) => error)
    t.ok(refused instanceof InvalidError, JSON.stringify(schema).slice(0, 60))
    t.match((refused as Error).message, message)
  }
  const self = { $defs: { a: { properties: { next: { $ref: '#/$defs/a' } } } }, $ref: '#/$defs/a' }
  const check = await schemaCheck(self)
  t.equal(check({ next: { next: {} } }), undefined)
})

t.test('isNested counts levels, of lists and objects; nothing deep is an object', async (t) => {
  t.equal(isNested([[[]]], 3), false)
  t.equal(isNested([[[[]]]], 3), true)
  t.equal(isNested({ a: [{ b: 1 }] }, 3), false)
  t.equal(isNested('text', 0), false)
  t.equal(isNested([[], [], []], 2), false, 'width is no depth')
  const deep = (levels: number) => `${'{"a":'.repeat(levels)}{}${'}'.repeat(levels)}`
  t.ok(parseObject(deep(MCP_DEPTH_MAX - 1)))
  for (const levels of [MCP_DEPTH_MAX, 5_000, 1_000_000])
    t.equal(parseObject(deep(levels)), undefined)
})
