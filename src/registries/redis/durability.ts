import { SnowleaseError } from "../../id/errors.ts";
import type { Connection, Reply } from "./connection.ts";
import { replyError } from "./errors.ts";
import type { RedisSettings } from "./address.ts";

const decoder = new TextDecoder();

/**
 * Refuses a server that deletes keys when its memory is full: a record that is gone is a window that is open again.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function checkEviction(connection: Connection, deadline: number): Promise<void> {
  const [reply = null] = await connection.send(deadline, ["INFO", "memory"]);
  if (reply instanceof Error) throw replyError(reply, connection.where);
  const policy = /^maxmemory_policy:(\S+)/m.exec(reply instanceof Uint8Array ? decoder.decode(reply) : "")?.[1];
  if (policy === undefined || policy === "noeviction" || policy.startsWith("volatile-")) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Redis ${connection.where} has the maxmemory-policy ${policy}, by which it may delete the records of windows: set it to noeviction or one of volatile-*.`,
  );
}

/** What acknowledged writes survive there, as far as the server tells. `config`: replies to CONFIG GET. */
export function promiseOf({ wait, maxLag }: RedisSettings, config: readonly (Reply | Error)[]): string {
  const told = new Map(config.flatMap(pairs));
  const fsync = told.get("appendonly") === "yes" ? told.get("appendfsync") : told.get("appendonly");
  const kept: Readonly<Record<string, string>> = {
    always: "Acknowledged writes survive kill -9 and power loss of this server (appendfsync always)",
    everysec:
      "Acknowledged writes survive kill -9 of this server, and power loss but for a second (appendfsync everysec)",
    no: "Acknowledged writes may be lost when this server stops (appendonly or appendfsync no)",
  };
  const survives = kept[fsync ?? ""] ?? "What acknowledged writes survive this server does not tell";
  const across =
    wait > 0 ? `holds across a partition as long as its replicas number at most ${wait}` : acrossBy(told, maxLag);
  return `${survives}; a restart, a promotion or a flush starts a quarantine; ${across}.`;
}

/** A server counts its replicas every second, by clocks of whole seconds: for so long it takes writes beyond what it is told, ms. */
const countingLag = 2000;

/** What keeps an old primary from writing when another one was promoted, without `wait`. */
function acrossBy(told: ReadonlyMap<string, string>, maxLag: number): string {
  const replicas = Number(told.get("min-replicas-to-write") ?? 0);
  const seconds = Number(told.get("min-replicas-max-lag") ?? 0);
  const never = "not across a partition with two primaries at once";
  if (replicas === 0 || seconds === 0) return `${never}: set \`wait\`, or min-replicas-to-write`;
  const least = 1000 * seconds + countingLag;
  if (maxLag < least) return `${never}: set \`maxLag\` to ${least} ms at least, or min-replicas-max-lag lower`;
  // With more of them, one may be promoted while enough stay with the old primary.
  return `holds across a partition as long as its replicas number at most ${replicas} (min-replicas-to-write)`;
}

function pairs(reply: Reply | Error): [string, string][] {
  if (!Array.isArray(reply)) return [];
  const texts = (reply as readonly Reply[]).map((part) => (part instanceof Uint8Array ? decoder.decode(part) : ""));
  return texts.flatMap((name, i) => (i % 2 === 0 ? [[name, texts[i + 1] ?? ""] as [string, string]] : []));
}
