// The whole life of schemas through @kafkajs/confluent-schema-registry: node javascript.mjs URL
import assert from 'node:assert'
import { createRequire } from 'node:module'

const require = createRequire(`${process.cwd()}/`)
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const registry = new SchemaRegistry({ host: process.argv[2] }, { [SchemaType.AVRO]: {}, [SchemaType.JSON]: {}, [SchemaType.PROTOBUF]: {} })
const order = fields => ({ type: SchemaType.AVRO, schema: JSON.stringify({ type: 'record', name: 'Order', namespace: 'shop', fields }) })
const x = { name: 'x', type: 'int' }

const first = await registry.register(order([x]), { subject: 'js-avro', compatibility: COMPATIBILITY.BACKWARD })
const second = await registry.register(order([x, { name: 'y', type: 'int', default: 1 }]), { subject: 'js-avro' })
assert.notStrictEqual(first.id, second.id)
assert.strictEqual(await registry.getLatestSchemaId('js-avro'), second.id)
assert.strictEqual(await registry.getRegistryId('js-avro', 1), first.id)
assert.strictEqual(await registry.getRegistryIdBySchema('js-avro', order([x])), first.id)
assert.deepEqual({ ...(await registry.decode(await registry.encode(second.id, { x: 1, y: 2 }))) }, { x: 1, y: 2 })
await assert.rejects(registry.register(order([x, { name: 'z', type: 'int' }]), { subject: 'js-avro' }), /incompatible/)

const json = { type: SchemaType.JSON, schema: '{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}' }
const ofJson = await registry.register(json, { subject: 'js-json' })
assert.deepEqual(await registry.decode(await registry.encode(ofJson.id, { x: 1 })), { x: 1 })

const proto = { type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; package shop; message Order { int32 x = 1; }' }
const ofProto = await registry.register(proto, { subject: 'js-proto' })
assert.strictEqual((await registry.decode(await registry.encode(ofProto.id, { x: 5 }))).x, 5)

const using = { type: SchemaType.AVRO, schema: '{"type":"record","name":"Basket","fields":[{"name":"o","type":"shop.Order"}]}', references: [{ name: 'shop.Order', subject: 'js-avro', version: 1 }] }
const ofBasket = await registry.register(using, { subject: 'js-basket' })
assert.deepEqual(JSON.parse(JSON.stringify(await registry.decode(await registry.encode(ofBasket.id, { o: { x: 3 } })))), { o: { x: 3 } })
console.log('ok')
