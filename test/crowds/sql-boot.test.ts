import { describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { bootStorm } from "../support/boot-storm.ts";
import { databases } from "../support/databases.ts";
import { openSql } from "../support/sql.ts";
import { namespace, subjectOn } from "../support/subject.ts";

const drivers = { postgres: "pg", mysql: "mysql2" };

// As installed, each accepts about a hundred clients at once: the other hundred have to try again.
describe.each(databases)("$name", ({ name, dialect, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    bootStorm(name, drivers[dialect], async () => {
      const server = await start();
      const registry = await openSql(server.url(), 60_000);
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      return subjectOn(server, registry);
    });
  });
});
