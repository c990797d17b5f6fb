// A process that claims many worker IDs at once, each as a lease of its own over one connection.
import { randomBytes } from "node:crypto";
import { layouts } from "../../dist/index.js";
import { openRegistry, parseAddress } from "../../dist/registries/index.js";

const [, , url, host, count, operationTimeout, window] = process.argv;
const registry = await openRegistry(parseAddress(url), { operationTimeout: Number(operationTimeout) });
await registry.ping();
process.send("ready");
await new Promise((resolve) => process.once("message", resolve));
const claim = async (i) => {
  const answer = await registry.claim({
    namespace: "orders",
    token: randomBytes(16).toString("hex"),
    pool: layouts.westid.pool,
    holder: { host, ip: "10.0.0.1", pid: i, instance: "" },
    clock: Date.now(),
    window: Number(window),
    layout: layouts.westid.fingerprint,
  });
  return answer.outcome === "granted" ? answer.workerId : answer.outcome;
};
const told = ({ code, message }) => `${code}: ${message}`;
const workerIds = await Promise.all(Array.from({ length: Number(count) }, (_, i) => claim(i).catch(told)));
process.send({ workerIds });
await new Promise((resolve) => process.once("message", resolve));
await registry.close();
process.disconnect();
