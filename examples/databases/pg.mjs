// node-postgres 8. By default it returns a BIGINT as text; this client returns a BigInt.
//
//   npm install snowlease pg
//   DATABASE_URL=postgres://postgres@localhost/postgres node pg.mjs
import assert from "node:assert/strict";
import pg from "pg";
import { snowlease } from "snowlease";

// For this client alone: pg.types.setTypeParser would change every client of the program, a library's too.
const types = new pg.TypeOverrides();
types.setTypeParser(pg.types.builtins.INT8, BigInt);

const ids = await snowlease();
const client = new pg.Client({ connectionString: process.env.DATABASE_URL, types });
await client.connect();
await client.query("DROP TABLE IF EXISTS orders_pg");
await client.query("CREATE TABLE orders_pg (id BIGINT PRIMARY KEY, item TEXT NOT NULL)");

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
// A parameter may be a BigInt or text. A number would be rounded before it is sent.
for (const { id, item } of [milk, tea]) await client.query("INSERT INTO orders_pg VALUES ($1, $2)", [id, item]);

const one = await client.query("SELECT id, item FROM orders_pg WHERE id = $1", [tea.id]);
assert.deepEqual(one.rows, [tea]);
// Sorted by ID is sorted by time.
const all = await client.query("SELECT id, item FROM orders_pg ORDER BY id");
assert.deepEqual(all.rows, [tea, milk]);

console.log(`pg: ${tea.id} came back as it was`);
await client.end();
await ids.close();
