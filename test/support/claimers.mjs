// A process that claims many worker IDs at once. Each one is a lease of its own, and all use one connection. It makes some IDs with each.
import { randomBytes } from "node:crypto";
import { layouts } from "../../dist/index.js";
import { openRegistry, parseAddress } from "../../dist/registries/index.js";

const [, , url, host, count, operationTimeout = "20000", window = "60000"] = process.argv;
const registry = await openRegistry(parseAddress(url), { operationTimeout: Number(operationTimeout) });
await registry.ping();
process.send("ready");
await new Promise((resolve) => process.once("message", resolve));
const claim = async (_, i) => {
  const request = {
    namespace: "orders",
    token: randomBytes(16).toString("hex"),
    pool: layouts.westid.pool,
    holder: { host, ip: "10.0.0.1", pid: i, instance: "" },
    window: Number(window),
    layout: layouts.westid.fingerprint,
  };
  for (let tries = 1; ; tries++) {
    try {
      const answer = await registry.claim({ ...request, clock: Date.now() });
      return answer.outcome === "granted" ? answer.workerId : answer.outcome;
    } catch (error) {
      // On a busy machine, one try of so many at once may take longer than a clock may be behind, or than an operation may take. A token
      // gets one grant, however often the claim is sent.
      if (!["CLOCK_SKEW", "REGISTRY_UNAVAILABLE"].includes(error.code) || tries === 3) throw error;
    }
  }
};
const workerIds = await Promise.all(Array.from({ length: Number(count) }, claim));
process.send({ workerIds });
await new Promise((resolve) => process.once("message", resolve));
await registry.close();
process.disconnect();
