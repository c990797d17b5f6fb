// An ID in JSON is text. JSON.stringify throws for a BigInt, and JSON.parse rounds a number as long as an ID without a word.
//
//   npm install snowlease
//   node json.mjs
import assert from "node:assert/strict";
import { encodings, snowlease } from "snowlease";

const ids = await snowlease();
const id = await ids.nextAsync();
const order = { id, item: "tea" };
assert.throws(() => JSON.stringify(order), TypeError);

// Writing: every BigInt becomes text, wherever it is.
const json = JSON.stringify(order, (_key, value) => (typeof value === "bigint" ? String(value) : value));
assert.equal(json, `{"id":"${id}","item":"tea"}`);

// Reading: only the fields that are known to be IDs. A telephone number has digits, too, and stays text.
const read = JSON.parse(json, (key, value) => (key === "id" ? encodings.decimal.decode(value) : value));
assert.deepEqual(read, order);
// It refuses what BigInt takes: "" as 0n, " 1", "0x10", and a number that was rounded before.
for (const wrong of ["", " 1", "0x10", Number(id)]) assert.throws(() => encodings.decimal.decode(wrong));

// Where someone else's JSON has IDs as bare numbers, Node 21 and newer, and browsers, show the reviver the digits, and write them.
if (JSON.rawJSON !== undefined) {
  const bare = `{"id":${id}}`;
  assert.deepEqual(
    JSON.parse(bare, (key, value, { source }) => (key === "id" ? BigInt(source) : value)),
    { id },
  );
  assert.equal(JSON.stringify({ id: JSON.rawJSON(id) }), bare);
}

console.log(`json: ${id} came back as it was`);
await ids.close();
