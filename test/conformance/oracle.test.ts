import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { driveStandIn, oracleStandIn } from "../support/oracle.ts";
import { lossyStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";
import { openSql } from "../support/sql.ts";
import { findServer, shareServer } from "../support/store-server.ts";

/** How the stand-in's driver sends a commit: it waits for the answer to each statement before. */
const commit = new RegExp(`^s${Buffer.from("COMMIT").toString("base64")}`, "m");

const source = await findServer("oracle", oracleStandIn);
if (source.isOwn) driveStandIn();

describe.skipIf(source.isMissing)(source.title, () => {
  const server = shareServer(source, openSql);

  runConformance("oracle", async () => {
    const namespace = server.newNamespace();
    const { own } = server;
    return {
      namespace,
      open: () => openSql(server.url(), patience),
      pause: sleep,
      now: Date.now,
      ...(own && { lossy: () => lossyStore({ url: own.url(), mark: commit, open: (url) => openSql(url, patience) }) }),
      lacks: { "creates-namespaces": "only `init` makes tables, with the rights that this takes" },
    };
  });
});
