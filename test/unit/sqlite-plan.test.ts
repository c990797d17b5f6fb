import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { readStatements } from "../../src/assets.ts";
import type { Connection, Driver } from "../../src/registries/sqlite/driver.ts";
import { loadDriver } from "../../src/registries/sqlite/driver.ts";

const files = readdirSync(new URL("../../sql/sqlite/", import.meta.url)).filter((file) => file !== "schema.sql");
const statements = files.flatMap((file) =>
  [...readStatements(`sqlite/${file}`)].map(([name, sql]) => ({ name: `${file.replace(".sql", "")}.${name}`, sql })),
);

let driver: Driver;
let connection: Connection;

beforeAll(async () => {
  driver = await loadDriver();
  connection = driver.open(":memory:");
  connection.exec(readFileSync(new URL("../../sql/sqlite/schema.sql", import.meta.url), "utf8"));
});

function plan(sql: string): readonly string[] {
  return connection
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all()
    .map(({ detail }) => String(detail));
}

describe("no statement of a claim, renewal or release reads more than it needs", () => {
  const hot = statements.filter(({ name, sql }) => {
    const asked =
      /^(claim|record|namespace|history|clock)\./.test(name) &&
      !/^(history\.(list|prune)|clock\.(least|most|accept-for-all))$/.test(name);
    return asked && /^(?:--.*\n)*(SELECT|UPDATE|DELETE)/.test(sql);
  });

  test("and they are all here", () => {
    expect(hot.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "claim.oldest",
        "claim.oldest-of-host",
        "claim.next-band",
        "record.gap-of",
        "history.end",
      ]),
    );
  });

  test.each(hot)("$name", ({ sql }) => {
    const steps = plan(sql);
    expect(steps.length).toBeGreaterThan(0);
    for (const step of steps) {
      expect(step).toMatch(/^SEARCH /);
      // SQLite walks through all entries that are equal in the first of several columns compared at once.
      expect(step).not.toMatch(/\)[<>]/);
    }
  });
});

test.each([
  ["claim.oldest", "worker_by_until (namespace_id=? AND band=?)"],
  ["claim.oldest-of-host", "worker_by_host (namespace_id=? AND band=? AND host=?)"],
  ["claim.newest-of-host", "worker_by_host (namespace_id=? AND band=? AND host=?)"],
  ["claim.next-band", "worker_by_until (namespace_id=? AND band>?)"],
  ["claim.by-token", "worker_by_token (namespace_id=? AND token=?)"],
  ["record.gap-of", "PRIMARY KEY (namespace_id=? AND last>?)"],
  ["history.prune", "history_by_until (namespace_id=? AND until_ms<?)"],
  ["workers.all", "PRIMARY KEY (namespace_id=? AND worker_id>?)"],
])("%s seeks in %s", (name, index) => {
  const found = statements.find((statement) => statement.name === name);
  expect(plan(found?.sql ?? "").join("; ")).toContain(index);
});

test("every statement is used", () => {
  const folder = join(import.meta.dirname, "../../src/registries/sqlite");
  const source = readdirSync(folder)
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .join("\n");
  for (const { name } of statements) {
    if (!name.startsWith("workers.")) expect(source).toContain(`"${name}"`);
  }
});
