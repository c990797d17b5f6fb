import { lacksOf } from "../../src/proof/lacks.ts";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { runConformance } from "../support/run-conformance.ts";

runConformance("memory", async () => {
  const clock = fakeClock();
  const registry = memoryRegistry({ clock });
  return {
    namespace: "orders",
    open: async () => registry,
    pause: clock.advance,
    now: clock.now,
    lacks: lacksOf("memory"),
  };
});
