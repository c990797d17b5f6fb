// IDs with a prefix that says what they are of: ord_1278549019894743040. An order's ID is never taken for a buyer's then, and no
// spreadsheet takes it for a number, which it would round to 15 digits. The database keeps the number alone.
//
//   npm install snowlease
//   node prefix.mjs
import assert from "node:assert/strict";
import { encodings, snowlease } from "snowlease";

/** IDs as text that begins with `prefix`. */
function prefixed(prefix) {
  return {
    encode: (id) => prefix + encodings.decimal.encode(id),
    decode(text) {
      if (typeof text !== "string" || !text.startsWith(prefix))
        throw new TypeError(`Expected an ID that begins with ${prefix}`);
      // It refuses signs, white space, and numbers above 2^63-1.
      return encodings.decimal.decode(text.slice(prefix.length));
    },
  };
}

const orderId = prefixed("ord_");
const buyerId = prefixed("buy_");

const ids = await snowlease();
const id = await ids.nextAsync();
const text = orderId.encode(id);
assert.equal(text, `ord_${id}`);
assert.equal(orderId.decode(text), id);
assert.throws(() => buyerId.decode(text), TypeError);
for (const wrong of [String(id), "ord_", "ord_-1", "ord_007", `ORD_${id}`, `${text} `, id])
  assert.throws(() => orderId.decode(wrong));

console.log(`prefix: ${text} came back as it was`);
await ids.close();
