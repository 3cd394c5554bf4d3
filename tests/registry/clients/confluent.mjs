// The whole life of schemas through @confluentinc/schemaregistry, with its serializers: node confluent.mjs URL
import assert from 'node:assert'
import { createRequire } from 'node:module'

const require = createRequire(`${process.cwd()}/`)
const sr = require('@confluentinc/schemaregistry')
const { create } = require('@bufbuild/protobuf')
const { StringValueSchema } = require('@bufbuild/protobuf/wkt')

const client = sr.SchemaRegistryClient.newClient({ baseURLs: [process.argv[2]] })
const order = (...fields) => ({ schemaType: 'AVRO', schema: JSON.stringify({ type: 'record', name: 'Order', namespace: 'shop', fields }) })
const x = { name: 'x', type: 'int' }
const y = { name: 'y', type: 'int', default: 1 }
const refusedWith = code => error => error.errorCode === code

const first = await client.registerFullResponse('cjs-avro-value', order(x))
const second = await client.registerFullResponse('cjs-avro-value', order(x, y))
assert.deepEqual([first.version, second.version], [1, 2])
assert.strictEqual(await client.getId('cjs-avro-value', order(x)), first.id)
assert.strictEqual(await client.getVersion('cjs-avro-value', order(x, y)), 2)
assert.strictEqual((await client.getBySubjectAndId('cjs-avro-value', first.id)).schema, order(x).schema)
assert.strictEqual((await client.getByGuid(second.guid)).schema, order(x, y).schema)
assert.strictEqual((await client.getLatestSchemaMetadata('cjs-avro-value')).id, second.id)
assert.deepEqual(await client.getAllVersions('cjs-avro-value'), [1, 2])
assert.strictEqual(await client.testSubjectCompatibility('cjs-avro-value', order(x, { name: 'z', type: 'int' })), false)
await assert.rejects(client.register('cjs-avro-value', order(x, { name: 'z', type: 'int' })), error => error.status === 409)
await assert.rejects(client.getLatestSchemaMetadata('cjs-nothing'), refusedWith(40401))

const basket = {
  schemaType: 'AVRO',
  schema: JSON.stringify({ type: 'record', name: 'Basket', fields: [{ name: 'o', type: 'shop.Order' }] }),
  references: [{ name: 'shop.Order', subject: 'cjs-avro-value', version: 1 }],
}
await client.register('cjs-basket-value', basket)
assert.deepEqual((await client.getLatestSchemaMetadata('cjs-basket-value')).references, basket.references)
await assert.rejects(client.deleteSubject('cjs-avro-value'), refusedWith(42206))

const rules = { domainRules: [{ name: 'positive', kind: 'CONDITION', mode: 'WRITE', type: 'CEL', expr: 'message.x > 0' }] }
const metadata = { properties: { owner: 'shop' } }
await client.register('cjs-ruled-value', { ...order(x), metadata, ruleSet: rules })
const ruled = await client.getLatestWithMetadata('cjs-ruled-value', { owner: 'shop' })
assert.deepEqual([ruled.metadata.properties, ruled.ruleSet.domainRules[0].expr], [metadata.properties, 'message.x > 0'])

assert.strictEqual(await client.updateCompatibility('cjs-avro-value', 'FULL'), 'FULL')
assert.strictEqual(await client.getCompatibility('cjs-avro-value'), 'FULL')
assert.strictEqual((await client.updateConfig('cjs-avro-value', { compatibility: 'NONE', normalize: true })).normalize, true)

const roundTrip = async (topic, serializer, deserializer, value) =>
  deserializer.deserialize(topic, await serializer.serialize(topic, value))
const { VALUE } = sr.SerdeType
const latest = { useLatestVersion: true }
const avro = await roundTrip('cjs-avro', new sr.AvroSerializer(client, VALUE, latest), new sr.AvroDeserializer(client, VALUE, {}), { x: 1, y: 2 })
assert.deepEqual({ ...avro }, { x: 1, y: 2 })
await client.register('cjs-json-value', { schemaType: 'JSON', schema: '{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}' })
const json = await roundTrip('cjs-json', new sr.JsonSerializer(client, VALUE, { ...latest, validate: true }), new sr.JsonDeserializer(client, VALUE, {}), { x: 1 })
assert.deepEqual(json, { x: 1 })
// It registers the descriptor of a file, and of those that it imports.
const protobuf = new sr.ProtobufSerializer(client, VALUE, { autoRegisterSchemas: true })
protobuf.registry.add(StringValueSchema)
const text = await roundTrip('cjs-proto', protobuf, new sr.ProtobufDeserializer(client, VALUE, {}), create(StringValueSchema, { value: 'five' }))
assert.strictEqual(text.value, 'five')
assert.match((await client.getLatestSchemaMetadata('cjs-proto-value')).schema, /message StringValue/)

await client.deleteSubject('cjs-basket-value')
await client.deleteSubject('cjs-basket-value', true)
assert.strictEqual(await client.deleteSubjectVersion('cjs-avro-value', 1), 1)
assert.deepEqual(await client.deleteSubject('cjs-avro-value'), [2])
assert.deepEqual(await client.deleteSubject('cjs-avro-value', true), [1, 2])
assert.ok(!(await client.getAllSubjects()).includes('cjs-avro-value'))
client.close()
console.log('ok')
