// TypeORM 1. By default it returns a BIGINT as text, and `save` takes a row whose ID is a BigInt for a new one, even where it is
// stored already. A transformer makes it a BigInt in both directions.
//
//   npm install snowlease typeorm pg
//   DATABASE_URL=postgres://postgres@localhost/postgres node typeorm.mjs
import assert from "node:assert/strict";
import { snowlease } from "snowlease";
import { DataSource, EntitySchema } from "typeorm";

const transformer = { to: (id) => id, from: (text) => text && BigInt(text) };
const Order = new EntitySchema({
  name: "Order",
  tableName: "orders_typeorm",
  // Not `generated`: the ID is there before the row is.
  columns: { id: { type: "bigint", primary: true, transformer }, item: { type: "text" } },
});

const ids = await snowlease();
const url = process.env.DATABASE_URL;
const database = new DataSource({ type: "postgres", url, entities: [Order], synchronize: true });
await database.initialize();
const orders = database.getRepository(Order);
await orders.clear();

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
// `insert` is one INSERT. `save` would first look by a SELECT whether the rows are there, since they have IDs.
await orders.insert([milk, tea]);

assert.deepEqual(await orders.findOneBy({ id: tea.id }), tea);
assert.deepEqual(await orders.find({ order: { id: "ASC" } }), [tea, milk]);

console.log(`typeorm: ${tea.id} came back as it was`);
await database.destroy();
await ids.close();
