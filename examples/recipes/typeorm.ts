// With TypeORM, on MySQL or MariaDB: DATABASE_URL=mysql://…

import { DataSource, EntitySchema } from "typeorm";
import { snowlease } from "snowlease";

interface Order {
  id: string; // TypeORM gives a `bigint` column as text
  note: string;
}
const Orders = new EntitySchema<Order>({
  name: "typeorm_orders",
  columns: { id: { type: "bigint", primary: true }, note: { type: "text" } },
});

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });
const db = new DataSource({ type: "mysql", url: process.env["DATABASE_URL"] ?? "", entities: [Orders] });
await db.initialize();
await db.synchronize();

const id = await ids.nextStringAsync();
await db.getRepository(Orders).insert({ id, note: "tea" });
const found = await db.getRepository(Orders).findOneByOrFail({ id }); // { id: "1278549019894743040", … }
console.log(id, found.id);

await db.destroy();
await ids.close();
