// Mongoose 9. A BigInt is stored as a 64-bit integer, BSON's `long`, and is read back as a BigInt where the schema says so.
//
//   npm install snowlease mongoose
//   DATABASE_URL=mongodb://localhost/test node mongoose.mjs
import assert from "node:assert/strict";
import mongoose from "mongoose";
import { snowlease } from "snowlease";

const ids = await snowlease();
// For what goes by no schema, as `lean()` and `aggregate()`: by default, they return an object of the class Long.
await mongoose.connect(process.env.DATABASE_URL, { useBigInt64: true });
const _id = { type: BigInt, default: ids.next };
const schema = new mongoose.Schema({ _id, item: String }, { versionKey: false });
const Order = mongoose.model("Order", schema, "orders_mongoose");
await Order.deleteMany();

const tea = await Order.create({ item: "tea" });
const milk = await Order.create({ item: "milk" });
assert.ok(tea._id < milk._id);

assert.deepEqual((await Order.findById(tea._id)).toObject(), { _id: tea._id, item: "tea" });
assert.deepEqual(await Order.findById(tea._id).lean(), { _id: tea._id, item: "tea" });
const all = await Order.find().sort("_id");
assert.deepEqual(
  all.map((order) => order._id),
  [tea._id, milk._id],
);

console.log(`mongoose: ${tea._id} came back as it was`);
await mongoose.disconnect();
await ids.close();
