// With Sequelize, on MySQL or MariaDB: DATABASE_URL=mysql://…

import { DataTypes, Sequelize } from "sequelize";
import { snowlease } from "snowlease";

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });
const db = new Sequelize(process.env["DATABASE_URL"] ?? "", {
  dialect: "mysql",
  dialectOptions: { supportBigNumbers: true, bigNumberStrings: true }, // text in every row, not only from 2^53 on
  logging: false,
});
const orders = db.define("sequelize_orders", {
  id: { type: DataTypes.BIGINT, primaryKey: true },
  note: DataTypes.TEXT,
});
await orders.sync();

const id = await ids.nextStringAsync();
await orders.create({ id, note: "tea" });
const found = await orders.findByPk(id); // id: "1278549019894743040"
console.log(id, String(found?.get("id")));

await db.close();
await ids.close();
