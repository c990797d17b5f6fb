// Holds the registry on a NATS server against the contract: `npx tsx examples/nats-registry/prove.ts nats://127.0.0.1:4222`.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { type ConformanceSubject, runConformance } from "snowlease/conformance";
import { documentRegistry } from "../own-registry/document-registry.ts";
import { natsDocument } from "./document.ts";

const [servers = "nats://127.0.0.1:4222"] = process.argv.slice(2);

/** A key of its own for each check; `open` gives another client of the same one. */
async function subject(): Promise<ConformanceSubject> {
  const key = randomUUID();
  const clients: NatsConnection[] = [];
  return {
    namespace: "orders",
    async open() {
      const client = await connect({ servers });
      clients.push(client);
      return documentRegistry(await natsDocument(client, key));
    },
    pause: sleep,
    now: Date.now,
    // A version comes again in an older copy of the document: stop all holders before one is put back.
    lacks: { "late-writes": "the versions of the document are counted" },
    close: async () => void (await Promise.all(clients.map((client) => client.close()))),
  };
}

const count = { passed: 0, skipped: 0, failed: 0 };
for await (const result of runConformance(subject)) {
  count[result.outcome] += 1;
  if (result.outcome === "skipped") console.log(`skipped: ${result.title}: ${result.reason}`);
  if (result.outcome === "failed") console.log(`FAILED: ${result.title}: ${String(result.error)}`);
}
console.log(count);
process.exitCode = count.failed === 0 ? 0 : 1;
