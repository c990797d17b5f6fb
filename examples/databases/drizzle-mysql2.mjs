// Drizzle 0.45 on MySQL and MariaDB. By default mysql2 returns a BIGINT as a rounded number, and Drizzle's mode "bigint" makes a
// BigInt of that: of the right type, and another ID. Two options of mysql2 prevent it.
//
//   npm install snowlease drizzle-orm mysql2
//   DATABASE_URL=mysql://root@localhost/test node drizzle-mysql2.mjs
import assert from "node:assert/strict";
import { asc, eq, sql } from "drizzle-orm";
import { bigint, mysqlTable, text } from "drizzle-orm/mysql-core";
import { drizzle } from "drizzle-orm/mysql2";
import { snowlease } from "snowlease";

const ids = await snowlease();
const orders = mysqlTable("orders_drizzle", {
  id: bigint({ mode: "bigint" }).primaryKey().$defaultFn(ids.next),
  item: text().notNull(),
});

const db = drizzle({ connection: { uri: process.env.DATABASE_URL, supportBigNumbers: true, bigNumberStrings: true } });
await db.execute(sql`DROP TABLE IF EXISTS ${orders}`);
await db.execute(sql`CREATE TABLE ${orders} (id BIGINT PRIMARY KEY, item TEXT NOT NULL)`);

// MySQL has no RETURNING; $returningId gives the IDs that $defaultFn made.
const items = [{ item: "tea" }, { item: "milk" }];
const [{ id }, { id: later }] = await db.insert(orders).values(items).$returningId();
assert.ok(id < later);

assert.deepEqual(await db.select().from(orders).where(eq(orders.id, id)), [{ id, item: "tea" }]);
const all = await db.select({ id: orders.id }).from(orders).orderBy(asc(orders.id));
assert.deepEqual(all, [{ id }, { id: later }]);

console.log(`drizzle-mysql2: ${id} came back as it was`);
await db.$client.end();
await ids.close();
