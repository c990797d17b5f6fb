// Drizzle 0.45 on PostgreSQL. Its `bigint` column asks for a mode: "bigint" is exact, "number" rounds.
// No mode is exact for IDs inside of `with`, as in db.query.buyers.findMany({ with: { orders: true } }): they travel as JSON
// numbers, and come out as other IDs. Use leftJoin for these.
//
//   npm install snowlease drizzle-orm pg
//   DATABASE_URL=postgres://postgres@localhost/postgres node drizzle.mjs
import assert from "node:assert/strict";
import { asc, eq, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, pgTable, text } from "drizzle-orm/pg-core";
import { snowlease } from "snowlease";

const ids = await snowlease();
const orders = pgTable("orders_drizzle", {
  // Called for each row without an ID. `ids.next` is synchronous: it throws where there is no ID to be had at once.
  id: bigint({ mode: "bigint" }).primaryKey().$defaultFn(ids.next),
  item: text().notNull(),
});

const db = drizzle(process.env.DATABASE_URL);
await db.execute(sql`DROP TABLE IF EXISTS ${orders}`);
await db.execute(sql`CREATE TABLE ${orders} (id BIGINT PRIMARY KEY, item TEXT NOT NULL)`);

const items = [{ item: "tea" }, { item: "milk" }];
const [tea, milk] = await db.insert(orders).values(items).returning();
assert.ok(tea.id < milk.id);

assert.deepEqual(await db.select().from(orders).where(eq(orders.id, tea.id)), [tea]);
assert.deepEqual(await db.select().from(orders).orderBy(asc(orders.id)), [tea, milk]);

console.log(`drizzle: ${tea.id} came back as it was`);
await db.$client.end();
await ids.close();
