// With Mongoose: the document as it goes to MongoDB and comes back.

import mongoose from "mongoose";
import { snowlease } from "snowlease";

const { BSON } = mongoose.mongo;
const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });

const Order = mongoose.model(
  "Order",
  new mongoose.Schema({ _id: { type: mongoose.Schema.Types.BigInt, required: true }, note: String }),
);
const made = new Order({ _id: await ids.nextAsync(), note: "tea" });
await made.validate();

const stored = BSON.serialize(made.toObject()); // a 64-bit integer (`long`)
const found = Order.hydrate(BSON.deserialize(stored, { useBigInt64: true }));
console.log(String(made._id), String(found._id));

await ids.close();
