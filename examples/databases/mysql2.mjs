// mysql2 3, for MySQL and MariaDB. By default it returns a BIGINT as a number, and rounds it without a word: two options prevent it.
//
//   npm install snowlease mysql2
//   DATABASE_URL=mysql://root@localhost/test node mysql2.mjs
import assert from "node:assert/strict";
import mysql from "mysql2/promise";
import { snowlease } from "snowlease";

const ids = await snowlease();
// Both options: with the first alone, a small BIGINT is still a number; the second alone does nothing.
const big = { supportBigNumbers: true, bigNumberStrings: true };
const connection = await mysql.createConnection({ uri: process.env.DATABASE_URL, ...big });
await connection.query("DROP TABLE IF EXISTS orders_mysql2");
await connection.query("CREATE TABLE orders_mysql2 (id BIGINT PRIMARY KEY, item TEXT NOT NULL)");

// Two of one millisecond: a number holds most first ones exactly, so that a test with one row would not notice the rounding.
const [first, second] = ids.take(2);
const tea = { id: first, item: "tea" };
const milk = { id: second, item: "milk" };
// A BigInt for a BIGINT, never a number. With mysql2 before 3.24 on MySQL 9, a prepared statement that was once given a number
// reads the BigInts after it as floating point, too, and stores other IDs.
const insert = "INSERT INTO orders_mysql2 VALUES (?, ?)";
for (const { id, item } of [milk, tea]) await connection.execute(insert, [id, item]);

const toOrder = (row) => ({ id: BigInt(row.id), item: row.item });
const [one] = await connection.execute("SELECT id, item FROM orders_mysql2 WHERE id = ?", [tea.id]);
assert.deepEqual(one.map(toOrder), [tea]);
const [all] = await connection.query("SELECT id, item FROM orders_mysql2 ORDER BY id");
assert.deepEqual(all.map(toOrder), [tea, milk]);

console.log(`mysql2: ${tea.id} came back as it was`);
await connection.end();
await ids.close();
