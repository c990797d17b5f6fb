import { describe } from "vitest";
import { defaultLayout } from "../../src/core/layout.ts";
import { mariadbMissing, MariadbServer } from "../support/mariadb.ts";
import { restartMatrix } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";

describe.skipIf(mariadbMissing !== undefined)(mariadbMissing ?? "on a real server", () => {
  restartMatrix("mysql", async () => {
    const server = await MariadbServer.start();
    const registry = await openSql(server.url());
    await registry.init({ namespace: "orders", layout: defaultLayout.fingerprint });
    return {
      url: server.url(),
      registry,
      async stop() {
        await registry.close();
        await server.remove();
      },
    };
  });
});
