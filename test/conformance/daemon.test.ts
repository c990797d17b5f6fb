import { startDaemon } from "../../src/daemon.ts";
import { daemonRegistry } from "../../src/registries/daemon/registry.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { startNewerDaemon } from "../support/newer-daemon.ts";
import { runConformance } from "../support/run-conformance.ts";

const log = { info() {}, warn() {}, error() {} };

runConformance("daemon", async () => {
  const clock = fakeClock();
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
  return {
    namespace: "orders",
    open: async () => daemonRegistry([daemon.url ?? ""]),
    pause: clock.advance,
    now: clock.now,
    close: () => daemon.close(),
  };
});

runConformance("daemon of another version", async () => {
  const clock = fakeClock();
  const listen = { host: "127.0.0.1", port: 0 };
  const daemon = await startDaemon({ registry: memoryRegistry({ clock }), listen, clock, log });
  const newer = await startNewerDaemon(daemon.url ?? "");
  return {
    namespace: "orders",
    open: async () => daemonRegistry([newer.url]),
    pause: clock.advance,
    now: clock.now,
    async close() {
      newer.close();
      await daemon.close();
    },
  };
});
