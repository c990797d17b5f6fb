// IDs in a text column, for a table that is shared with programs that have no 64-bit integers. Text sorts like the numbers only
// where all have one width: encodeFixed writes 19 digits. A BIGINT takes 8 bytes, and sorts by itself.
//
//   npm install snowlease pg
//   DATABASE_URL=postgres://postgres@localhost/postgres node text-column.mjs
import assert from "node:assert/strict";
import pg from "pg";
import { encodings, snowlease } from "snowlease";

// base62sort needs 11 characters alone, in a column that compares bytes: COLLATE "C" in PostgreSQL. In MySQL, CHARACTER SET ascii
// COLLATE ascii_bin: its default takes `a` and `A` for the same.
const { encodeFixed, decode } = encodings.decimal;

const ids = await snowlease();
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
await client.query("DROP TABLE IF EXISTS orders_text");
await client.query("CREATE TABLE orders_text (id VARCHAR(19) PRIMARY KEY, item TEXT NOT NULL)");

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: 99n, item: "milk" }; // "99" would come last
const insert = "INSERT INTO orders_text VALUES ($1, $2)";
for (const { id, item } of [tea, milk]) await client.query(insert, [encodeFixed(id), item]);

// Text for a text column: MySQL would compare it with a number as floating point, and find other rows, too.
const one = await client.query("SELECT id, item FROM orders_text WHERE id = $1", [encodeFixed(tea.id)]);
const toOrder = (row) => ({ id: decode(row.id), item: row.item });
assert.deepEqual(one.rows.map(toOrder), [tea]);
const all = await client.query("SELECT id, item FROM orders_text ORDER BY id");
assert.deepEqual(all.rows.map(toOrder), [milk, tea]);

console.log(`text-column: ${tea.id} came back as it was`);
await client.end();
await ids.close();
