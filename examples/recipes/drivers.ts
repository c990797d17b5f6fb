// With drivers alone: PostgreSQL (POSTGRES_URL), MySQL or MariaDB (MYSQL_URL), SQLite.

import Database from "libsql";
import mysql from "mysql2/promise";
import pg from "pg";
import { snowlease } from "snowlease";

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });

// PostgreSQL: takes a bigint, gives text.
const postgres = new pg.Pool({ connectionString: process.env["POSTGRES_URL"] });
await postgres.query("CREATE TABLE orders (id BIGINT PRIMARY KEY)");
const first = await ids.nextAsync();
await postgres.query("INSERT INTO orders VALUES ($1)", [first]);
const { rows } = await postgres.query("SELECT id FROM orders"); // [{ id: "1278549019894743040" }]
console.log(String(first), rows[0].id);
await postgres.end();

// MySQL and MariaDB: without these two settings, what it gives is rounded.
const maria = mysql.createPool({
  uri: process.env["MYSQL_URL"] ?? "",
  supportBigNumbers: true,
  bigNumberStrings: true,
});
await maria.query("CREATE TABLE orders (id BIGINT PRIMARY KEY)");
const second = await ids.nextStringAsync();
await maria.execute("INSERT INTO orders VALUES (?)", [second]);
const [found] = await maria.query<mysql.RowDataPacket[]>("SELECT id FROM orders"); // [{ id: "1278549019894743040" }]
console.log(second, found[0]?.["id"]);
await maria.end();

// SQLite, by `libsql` or `better-sqlite3`; by `node:sqlite`: statement.setReadBigInts(true).
const sqlite = new Database(":memory:");
sqlite.defaultSafeIntegers(true);
sqlite.exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
const third = await ids.nextAsync();
sqlite.prepare("INSERT INTO orders VALUES (?)").run(third);
const row = sqlite.prepare("SELECT id FROM orders").get() as { id: bigint }; // { id: 1278549019894743040n }
console.log(String(third), String(row.id));

await ids.close();
