import { describe } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { databases } from "../support/databases.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { namespace, subjectOn } from "../support/subject.ts";

const servers = databases.filter(({ dialect }) => dialect === "mysql");

describe.each(servers)("$name", ({ name, missing, start }) => {
  describe.skipIf(missing !== undefined)(missing ?? "on a real server", () => {
    restartMatrix(name, async () => {
      const server = await start();
      const registry = await openSql(server.url());
      await registry.init({ namespace, layout: defaultLayout.fingerprint });
      return subjectOn(server, registry);
    });
  });
});
