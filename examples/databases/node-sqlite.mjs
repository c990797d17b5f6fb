// node:sqlite, which Node has from 22.13 on. By default it throws ERR_OUT_OF_RANGE for an integer that a number cannot hold.
//
//   npm install snowlease
//   DATABASE_URL=orders.db node node-sqlite.mjs
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { snowlease } from "snowlease";

const ids = await snowlease();
const db = new DatabaseSync(process.env.DATABASE_URL);
db.exec("DROP TABLE IF EXISTS orders_node_sqlite");
db.exec("CREATE TABLE orders_node_sqlite (id INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT");

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
// A parameter may be a BigInt as it is; a number would be rounded before.
const insert = db.prepare("INSERT INTO orders_node_sqlite VALUES (?, ?)");
for (const { id, item } of [milk, tea]) insert.run(id, item);

// Every integer of these rows is a BigInt. Newer Nodes have it for all statements: new DatabaseSync(path, { readBigInts: true }).
const one = db.prepare("SELECT id, item FROM orders_node_sqlite WHERE id = ?");
one.setReadBigInts(true);
assert.deepEqual({ ...one.get(tea.id) }, tea);
const all = db.prepare("SELECT id, item FROM orders_node_sqlite ORDER BY id");
all.setReadBigInts(true);
assert.deepEqual(
  all.all().map((row) => ({ ...row })),
  [tea, milk],
);

console.log(`node-sqlite: ${tea.id} came back as it was`);
db.close();
await ids.close();
