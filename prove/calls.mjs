// Keeps a record of the calls of a registry, right where a lease makes them: what is asked before it is, and what is answered after that.

import { createHash } from "node:crypto";
import { wrapRegistry } from "../dist/registries/wrap.js";

/** The same registry; `note` is called with a fact of the log for each call, and for each answer. */
export function recordCalls(registry, note) {
  return wrapRegistry(registry, ["claim", "renew", "release"], async ({ method, args: [request] }, run) => {
    const number = nextNumber++;
    note({ call: { number, method, request: short(request) } });
    try {
      const answer = await run();
      const { store: _, ...told } = answer;
      note({ answered: { number, answer: short(told) } });
      return answer;
    } catch (error) {
      note({ answered: { number, error: error?.code ?? "REGISTRY_UNAVAILABLE" } });
      throw error;
    }
  });
}

/** Of a process: it may open one registry after the other. */
let nextNumber = 1;

/** With the bytes of its recents by their hash: they are up to 64 KiB, and no check reads more of them than whether they are the same. */
function short(what) {
  const { recents, used } = what;
  return {
    ...what,
    ...(recents && { recents: { ...recents, bytes: hashOf(recents.bytes) } }),
    ...(used && { used: short(used) }),
  };
}

function hashOf(bytes) {
  return createHash("sha256").update(bytes).digest("base64url");
}
