import { SnowleaseError } from "../../../id/errors.ts";
import type { SqlRow } from "../dialect.ts";

/*
 * Servers that accept writes on several nodes and share one set of data. A Galera cluster of MariaDB keeps its data as long as it runs
 * without a break. If no majority is left, it is formed again, perhaps by a node that lacks writes that the others acknowledged. That is
 * another cluster. Its own id does not show this, and its count of changes may reach the same value again.
 */

/** A Galera cluster as its nodes know it, from the statement `session.identity-of-cluster`. */
export interface GaleraCluster {
  /** The id of its data. */
  readonly id: string;
  /** How often its set of nodes changed since it was formed. */
  readonly changes: number;
  /** Each node of the cluster, by an id that the node draws when it starts. */
  readonly nodes: readonly string[];
}

/** The first characters of the identity of a node. */
export const galera = "galera ";

/** Reads an identity. Undefined for the identity of a single server, and of a cluster whose nodes do not know their data. */
export function clusterOf(identity: string): GaleraCluster | undefined {
  const [, id = "", changes, nodes = ""] = /^galera ([\da-f-]{36}) (\d{1,15}) ([\da-f,-]+)$/.exec(identity) ?? [];
  if (changes === undefined || !/[1-9a-f]/.test(id)) return undefined;
  return { id, changes: Number(changes), nodes: nodes.split(",") };
}

/**
 * Whether a cluster went on from one identity to the other without a break. A node draws a new id when it starts. So if at least half of
 * the nodes are still there, at most the other half crashed or was restarted.
 */
export function goesOn(stored: string, seen: string): boolean {
  const [before, after] = [clusterOf(stored), clusterOf(seen)];
  if (before === undefined || after === undefined) return false;
  if (before.id !== after.id || before.changes >= after.changes) return false;
  const stayed = before.nodes.filter((node) => after.nodes.includes(node));
  return stayed.length * 2 >= before.nodes.length;
}

/** Whether the server is a node of a Galera cluster. `settings`: from the statement `session.settings`. */
export function isClusterNode(settings: ReadonlyMap<string, string>): boolean {
  const provider = settings.get("wsrep_provider") ?? "none";
  return settings.get("wsrep_on") === "ON" && provider !== "none" && provider !== "";
}

/** @throws SnowleaseError CONFIG_INVALID for a server that shares its writes with others in an unsupported way. */
export function checkPrimaries(settings: ReadonlyMap<string, string>, isMaria: boolean, where: string): void {
  const sign =
    settings.get("group_replication_single_primary_mode") === "OFF"
      ? "group_replication_single_primary_mode=OFF"
      : !isMaria && isClusterNode(settings)
        ? "wsrep_on=ON"
        : undefined;
  if (sign === undefined) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `MySQL ${where} is set up to take writes on several servers at once (${sign}), and Snowlease knows no way to tell what such a group forgets; use a group with one primary, or a Galera cluster of MariaDB.`,
  );
}

/** @throws SnowleaseError REGISTRY_UNAVAILABLE for a cluster whose nodes do not know their data. */
export function checkCluster(row: SqlRow | undefined, where: string): void {
  // A node that has never joined names no cluster. It refuses the next statements.
  const identity = row?.["identity"] ?? undefined;
  if (identity === undefined || clusterOf(String(identity)) !== undefined) return;
  throw new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `MariaDB ${where} is in a cluster whose nodes do not know whether they have the same data (no wsrep_cluster_state_uuid), as after a crash of all of them; stop them, and form the cluster anew by the node that \`--wsrep-recover\` shows to be the latest.`,
  );
}
