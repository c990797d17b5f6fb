import { SnowleaseError } from "../../id/errors.ts";
import type { Durability } from "../../rule/registry.ts";
import { bytesOf } from "./answers.ts";
import type { RedisConnection } from "./connection.ts";
import type { RedisReply } from "./driver.ts";
import { replyError } from "./errors.ts";
import type { RedisSettings } from "./settings.ts";

const decoder = new TextDecoder();

/**
 * Refuses a server that deletes keys when its memory is full. Without the record of a window, the registry would grant the window again.
 * @throws SnowleaseError CONFIG_INVALID
 */
export async function checkEviction(connection: RedisConnection, deadline: number): Promise<void> {
  const [reply = null] = await connection.send(deadline, ["INFO", "memory"]);
  if (reply instanceof Error) throw replyError(reply, connection.where);
  const policy = /^maxmemory_policy:(\S+)/m.exec(decoder.decode(bytesOf(reply)))?.[1];
  if (policy === undefined || policy === "noeviction" || policy.startsWith("volatile-")) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Redis ${connection.where} has the maxmemory-policy ${policy}, by which it may delete the records of windows: set it to noeviction or one of volatile-*.`,
  );
}

/** Which failures acknowledged writes survive, as far as the server says. `config`: replies to CONFIG GET. */
export function durabilityOf({ wait, maxLag }: RedisSettings, config: readonly (RedisReply | Error)[]): Durability {
  const settings = new Map(config.flatMap(pairs));
  const fsync = settings.get("appendonly") === "yes" ? settings.get("appendfsync") : settings.get("appendonly");
  const known: Readonly<Record<string, string>> = {
    always: "Acknowledged writes survive kill -9 and power loss of this server (appendfsync always)",
    everysec:
      "Acknowledged writes survive kill -9 of this server, and power loss but for a second (appendfsync everysec)",
    no: "Acknowledged writes may be lost when this server stops (appendonly or appendfsync no)",
  };
  const survives = known[fsync ?? ""] ?? "What acknowledged writes survive this server does not tell";
  const durability = `${survives}; a restart, a promotion or a flush starts a quarantine; ${acrossPartition(settings, wait, maxLag)}.`;
  return { durability, lossy: fsync === "no" || fsync === "everysec" };
}

/**
 * A server counts its replicas once a second, with clocks of whole seconds. It takes writes for this long after `min-replicas-max-lag`, ms.
 */
const countingLag = 2000;

/** Whether an old primary stops writing after another one was promoted. */
function acrossPartition(config: ReadonlyMap<string, string>, wait: number, maxLag: number): string {
  if (wait > 0) return `holds across a partition as long as its replicas number at most ${wait}`;
  const replicas = Number(config.get("min-replicas-to-write") ?? 0);
  const seconds = Number(config.get("min-replicas-max-lag") ?? 0);
  const never = "not across a partition with two primaries at once";
  if (replicas === 0 || seconds === 0) return `${never}: set \`wait\`, or min-replicas-to-write`;
  const least = 1000 * seconds + countingLag;
  if (maxLag < least) return `${never}: set \`maxLag\` to ${least / 1000}s at least, or min-replicas-max-lag lower`;
  // With more replicas, one replica may be promoted while enough replicas stay with the old primary.
  return `holds across a partition as long as its replicas number at most ${replicas} (min-replicas-to-write)`;
}

function pairs(reply: RedisReply | Error): [string, string][] {
  if (!Array.isArray(reply)) return [];
  const texts = (reply as readonly RedisReply[]).map((part) => decoder.decode(bytesOf(part)));
  return texts.flatMap((name, i) => (i % 2 === 0 ? [[name, texts[i + 1] ?? ""] as [string, string]] : []));
}
