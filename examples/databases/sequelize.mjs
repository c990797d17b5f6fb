// Sequelize 6. By default it returns a BIGINT as text, except in a row that it has just made on MySQL: a getter makes it a BigInt.
//
//   npm install snowlease sequelize pg
//   DATABASE_URL=postgres://postgres@localhost/postgres node sequelize.mjs    # or mysql2 and mysql://root@localhost/test
import assert from "node:assert/strict";
import { DataTypes, Sequelize } from "sequelize";
import { snowlease } from "snowlease";

const ids = await snowlease();
const sequelize = new Sequelize(process.env.DATABASE_URL, { logging: false });
const id = {
  type: DataTypes.BIGINT,
  primaryKey: true,
  defaultValue: ids.next,
  get() {
    const value = this.getDataValue("id");
    // There is none where a query asks for other columns.
    return value === undefined ? undefined : BigInt(value);
  },
};
const Order = sequelize.define("orders_sequelize", { id, item: DataTypes.TEXT }, { timestamps: false });
await Order.sync({ force: true });

const tea = await Order.create({ item: "tea" });
const milk = await Order.create({ item: "milk" });
assert.equal(typeof tea.id, "bigint");

assert.deepEqual((await Order.findByPk(tea.id)).toJSON(), { id: tea.id, item: "tea" });
const all = await Order.findAll({ order: ["id"] });
assert.deepEqual(
  all.map((order) => order.id),
  [tea.id, milk.id],
);

console.log(`sequelize: ${tea.id} came back as it was`);
await sequelize.close();
await ids.close();
