import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Daemon, startDaemon } from "../../src/daemon.ts";
import { receiptKeyFile } from "../../src/http/access/receipt-keys.ts";
import { Receipts } from "../../src/http/access/receipts.ts";
import { systemClock } from "../../src/clock.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import type { Registry } from "../../src/rule/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { startNewerDaemon } from "../support/newer-daemon.ts";
import { lossyStore } from "../support/late-store.ts";
import { patience } from "../support/patience.ts";
import { runConformance } from "../support/run-conformance.ts";

const log = { info() {}, warn() {}, error() {} };
const listen = { host: "127.0.0.1", port: 0 };
const options = { operationTimeout: patience };
const noCopies = { copies: "An operator asks the store itself." };
const lacks = { "plain-receipts": "A daemon signs its receipts: a check cannot invent one.", ...noCopies };

runConformance("daemon", async () => {
  const clock = fakeClock();
  const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
  return {
    namespace: "orders",
    open: async () => daemonRegistry([daemon.url ?? ""], options),
    pause: clock.advance,
    now: clock.now,
    lossy: () =>
      lossyStore({
        url: daemon.url ?? "",
        mark: /^(?:POST|PUT|PATCH|DELETE) /,
        open: async (url) => daemonRegistry([url], options),
      }),
    close: () => daemon.close(),
    lacks,
  };
});

runConformance("daemon of another version", async () => {
  const clock = fakeClock();
  const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
  const newer = await startNewerDaemon(daemon.url ?? "");
  return {
    namespace: "orders",
    open: async () => daemonRegistry([newer.url], options),
    pause: clock.advance,
    now: clock.now,
    async close() {
      newer.close();
      await daemon.close();
    },
    lacks,
  };
});

runConformance("daemon behind a daemon", async () => {
  const clock = fakeClock();
  const far = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
  const near = await startDaemon({ registry: daemonRegistry([far.url ?? ""], options), listen, clock, log });
  return {
    namespace: "orders",
    open: async () => daemonRegistry([near.url ?? ""], options),
    pause: clock.advance,
    now: clock.now,
    async close() {
      await near.close();
      await far.close();
    },
    lacks,
  };
});

runConformance("daemon whose key the checks know", async () => {
  const clock = fakeClock();
  const folder = mkdtempSync(join(tmpdir(), "snowlease-"));
  const receiptKeys = join(folder, "keys");
  writeFileSync(receiptKeys, "a 000102030405060708090a0b0c0d0e0f", { mode: 0o600 });
  const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log, receiptKeys });
  return {
    namespace: "orders",
    open: async () => plainly(daemon, receiptKeys),
    pause: clock.advance,
    now: clock.now,
    async close() {
      await daemon.close();
      rmSync(folder, { recursive: true });
    },
    lacks: noCopies,
  };
});

/** The registry of a daemon, with receipts as the rule writes them: signs them with the daemon's key, and takes signatures off. */
function plainly({ url = "" }: Daemon, receiptKeys: string): Registry {
  const registry = daemonRegistry([url], options);
  const signing = new Receipts(
    { ...registry, receiptKey: async () => undefined },
    systemClock,
    receiptKeyFile(receiptKeys, log),
  );
  const signed = (namespace: string, receipt: string | undefined) => signing.signed(namespace, receipt);
  const plain = <Answer extends object>(answer: Answer): Answer =>
    "receipt" in answer ? { ...answer, receipt: String(answer.receipt).split(".").slice(0, -2).join(".") } : answer;
  return {
    ...registry,
    claim: async (request) =>
      plain(await registry.claim({ ...request, recall: await signed(request.namespace, request.recall) })),
    renew: async (request) =>
      plain(await registry.renew({ ...request, receipt: await signed(request.namespace, request.receipt) })),
    release: async (request) =>
      registry.release({ ...request, receipt: await signed(request.namespace, request.receipt) }),
  };
}
