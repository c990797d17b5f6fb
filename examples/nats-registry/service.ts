// A service that leases from NATS: it prints IDs until SIGTERM. `npx tsx examples/nats-registry/service.ts nats://127.0.0.1:4222`.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";
import { snowlease } from "snowlease";
import { documentRegistry } from "../own-registry/document-registry.ts";
import { natsDocument } from "./document.ts";

const [servers = "nats://127.0.0.1:4222"] = process.argv.slice(2);
const nats = await connect({ servers, maxReconnectAttempts: -1 });
const registry = documentRegistry(await natsDocument(nats, "snowlease"));
const ids = await snowlease({ registry, namespace: "orders" });

let ending = false;
process.once("SIGTERM", () => (ending = true));
while (!ending) {
  console.log(ids.nextString());
  await sleep(1);
}
// Where NATS is away, the worker ID rests until its window has ended.
await ids.close().catch(console.warn);
await registry.close();
await nats.close();
