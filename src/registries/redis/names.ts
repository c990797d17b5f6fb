import { SnowleaseError } from "../../id/errors.ts";
import { monotonic, systemClock } from "../../lease/clock.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisReply } from "./driver.ts";
import { replyError } from "./errors.ts";

/** Keys that the server looks at for one command: some 0.2 ms, in which it does nothing else. */
const step = 1000;

/**
 * Names under which there is a key `meta`, in ascending order, after a look at every key of each server. `prefixOf`: the beginning of the
 * names of a namespace's keys.
 * @throws SnowleaseError REGISTRY_UNAVAILABLE also where there are too many keys for one operation, FORBIDDEN.
 */
export async function* metaNames(
  connection: RedisConnection,
  prefixOf: (namespace: string) => string,
): AsyncGenerator<string, void, undefined> {
  const { where, cluster, operationTimeout } = connection;
  const deadline = connection.deadline();
  const pattern = `${prefixOf("default").replace(/workerId/, "workerId*")}:meta`;
  const primaries = await connection.primaries(deadline);
  const found = await Promise.all(primaries.map(scanned));
  const names = found.flat().flatMap((key) => {
    const [, , name = "default"] = /^(\{?)workerId(?:\/(.*?))?\}?:meta$/.exec(key) ?? [];
    return key === `${prefixOf(name)}:meta` ? name : [];
  });
  // SCAN may list a key twice.
  yield* [...new Set(names)].toSorted();

  async function scanned(send: (typeof primaries)[number]): Promise<readonly string[]> {
    const keys: string[] = [];
    for (let cursor = "0"; ;) {
      let reply: RedisReply | Error;
      try {
        reply = await send(["SCAN", cursor, "MATCH", pattern, "COUNT", step]);
      } catch (cause) {
        if (cursor === "0" || monotonic(systemClock) < deadline) throw cause;
        const what = `Redis ${where} has more keys${cluster ? " on a node" : ""} than a look at all of them has time for, ${operationTimeout} ms`;
        throw new SnowleaseError("REGISTRY_UNAVAILABLE", `${what}; set a longer \`operationTimeout\`.`, {}, { cause });
      }
      if (reply instanceof Error) throw replyError(reply, where);
      const [next, some] = reply as readonly [Uint8Array, readonly Uint8Array[]];
      keys.push(...some.map(String));
      cursor = String(next);
      if (cursor === "0") return keys;
    }
  }
}
