// In JSON, an ID is text: JavaScript reads numbers there as doubles, and rounds them from 2^53 on.

import { snowlease } from "snowlease";

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });

const id = await ids.nextAsync();
const order = { id, note: "tea" };
// {"id":"1278549019894743040","note":"tea"}
const text = JSON.stringify(order, (_, value) => (typeof value === "bigint" ? String(value) : value));
const read = JSON.parse(text) as { id: string };
console.log(String(id), String(BigInt(read.id)));

await ids.close();
