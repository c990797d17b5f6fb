import { fakeClock } from "../../src/testing.ts";
import { runConformance } from "../support/run-conformance.ts";
import { strictRegistry } from "../support/strict-engine.ts";

runConformance("engine", async () => {
  const clock = fakeClock();
  const registry = strictRegistry(clock);
  return {
    namespace: "orders",
    open: async () => registry,
    pause: clock.advance,
    now: clock.now,
    lacks: { connections: "There is nothing to connect to: all clients are one object." },
  };
});
