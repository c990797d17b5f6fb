import { SnowleaseError } from "../../core/errors.ts";
import type { Connection, Reply } from "./connection.ts";
import { replyError } from "./errors.ts";
import type { RedisSettings } from "./settings.ts";

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
export function promiseOf({ wait }: RedisSettings, config: readonly (Reply | Error)[]): string {
  const told = new Map(config.flatMap(pairs));
  const fsync = told.get("appendonly") === "yes" ? told.get("appendfsync") : told.get("appendonly");
  const kept: Readonly<Record<string, string>> = {
    always: "Acknowledged writes survive kill -9 and power loss of this server (appendfsync always)",
    everysec:
      "Acknowledged writes survive kill -9 of this server, and power loss but for a second (appendfsync everysec)",
    no: "Acknowledged writes may be lost when this server stops (appendonly or appendfsync no)",
  };
  const survives = kept[fsync ?? ""] ?? "What acknowledged writes survive this server does not tell";
  const replicas = Number(told.get("min-replicas-to-write") ?? 0);
  const across =
    wait > 0
      ? `holds across a partition if all replicas that may be promoted are among those ${wait} that confirm`
      : replicas > 0
        ? "holds across a partition, since a primary without its replicas takes no writes"
        : "not across a partition with two primaries at once: set `wait`, or min-replicas-to-write";
  return `${survives}; a restart, a promotion or a flush starts a quarantine; ${across}.`;
}

function pairs(reply: Reply | Error): [string, string][] {
  if (!Array.isArray(reply)) return [];
  const texts = (reply as readonly Reply[]).map((part) => (part instanceof Uint8Array ? decoder.decode(part) : ""));
  return texts.flatMap((name, i) => (i % 2 === 0 ? [[name, texts[i + 1] ?? ""] as [string, string]] : []));
}
