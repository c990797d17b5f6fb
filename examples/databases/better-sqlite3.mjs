// better-sqlite3 13, which needs Node 22. By default it returns an integer as a number, and rounds it without a word.
// libsql 0.5, which also runs on Node 20, has the same methods: only the import differs.
//
//   npm install snowlease better-sqlite3
//   DATABASE_URL=orders.db node better-sqlite3.mjs
import assert from "node:assert/strict";
import Database from "better-sqlite3";
import { snowlease } from "snowlease";

const ids = await snowlease();
const db = new Database(process.env.DATABASE_URL);
// Every integer of every row becomes a BigInt, counts too. For one statement alone: db.prepare(…).safeIntegers().
db.defaultSafeIntegers();
db.exec("DROP TABLE IF EXISTS orders_better_sqlite3");
db.exec("CREATE TABLE orders_better_sqlite3 (id INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT");

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
const insert = db.prepare("INSERT INTO orders_better_sqlite3 VALUES (?, ?)");
for (const { id, item } of [milk, tea]) insert.run(id, item);

assert.deepEqual(db.prepare("SELECT id, item FROM orders_better_sqlite3 WHERE id = ?").all(tea.id), [tea]);
assert.deepEqual(db.prepare("SELECT id, item FROM orders_better_sqlite3 ORDER BY id").all(), [tea, milk]);

console.log(`better-sqlite3: ${tea.id} came back as it was`);
db.close();
await ids.close();
