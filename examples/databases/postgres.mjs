// postgres.js 3. By default it returns a BIGINT as text; its own type `postgres.BigInt` returns a BigInt.
//
//   npm install snowlease postgres
//   DATABASE_URL=postgres://postgres@localhost/postgres node postgres.mjs
import assert from "node:assert/strict";
import postgres from "postgres";
import { snowlease } from "snowlease";

const ids = await snowlease();
const sql = postgres(process.env.DATABASE_URL, {
  types: { bigint: postgres.BigInt },
  // It prints by default what PostgreSQL remarks: that there is no table to drop.
  onnotice: () => {},
});
await sql`DROP TABLE IF EXISTS orders_postgres`;
await sql`CREATE TABLE orders_postgres (id BIGINT PRIMARY KEY, item TEXT NOT NULL)`;

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
// A parameter may be a BigInt or text. A number would be rounded before it is sent.
await sql`INSERT INTO orders_postgres ${sql([milk, tea])}`;

assert.deepEqual([...(await sql`SELECT id, item FROM orders_postgres WHERE id = ${tea.id}`)], [tea]);
// Several IDs go in by the helper; an array of BigInts as one parameter, for ANY, is refused.
const both = await sql`SELECT id, item FROM orders_postgres WHERE id IN ${sql([milk.id, tea.id])} ORDER BY id`;
assert.deepEqual([...both], [tea, milk]);

console.log(`postgres: ${tea.id} came back as it was`);
await sql.end();
await ids.close();
