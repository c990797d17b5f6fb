// With Drizzle, on PostgreSQL: DATABASE_URL=postgres://…

import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, pgTable, text } from "drizzle-orm/pg-core";
import { snowlease } from "snowlease";

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });
const db = drizzle(process.env["DATABASE_URL"] ?? "");
await db.execute("CREATE TABLE drizzle_orders (id BIGINT PRIMARY KEY, note TEXT NOT NULL)");

const orders = pgTable("drizzle_orders", {
  id: bigint({ mode: "bigint" }).primaryKey(), // `mode: "number"` would round it
  note: text().notNull(),
});
const id = await ids.nextAsync();
await db.insert(orders).values({ id, note: "tea" });
const [found] = await db.select().from(orders).where(eq(orders.id, id)); // { id: 1278549019894743040n, … }
console.log(String(id), String(found?.id));

await db.$client.end();
await ids.close();
