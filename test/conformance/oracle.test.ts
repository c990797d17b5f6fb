import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { findServer, shareServer } from "../support/store-server.ts";

const source = await findServer("oracle", oracleStandIn);
if (source.isOwn) driveStandIn();

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openSql);

  runConformance("oracle", async () => ({
    namespace: server.newNamespace(),
    open: () => openSql(server.url(), patience),
    pause: sleep,
    now: Date.now,
    lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
  }));
});
