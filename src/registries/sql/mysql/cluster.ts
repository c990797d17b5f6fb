import { SnowleaseError } from "../../../id/errors.ts";
import type { SqlRow } from "../dialect.ts";

/*
 * Servers that take writes on several nodes and have one set of data. In a Galera cluster of MariaDB, the data are those of the cluster
 * as long as it goes on without a break. Once no majority is left, it is formed anew, perhaps by a node that lacks what the others
 * acknowledged: that is another cluster. Its own id does not show this, and its count of changes may come to the same number again.
 */

/** A Galera cluster as its nodes know it, from the statement `session.identity-of-cluster`. */
export interface GaleraCluster {
  /** The id of its data. */
  readonly id: string;
  /** How often its nodes changed since it was formed. */
  readonly changes: number;
  /** Each node that is in it, by an id that the node draws when it starts. */
  readonly nodes: readonly string[];
}

/** The begin of the identity of a node. */
export const galera = "galera ";

/** Reads an identity; undefined for that of a server, and of a cluster whose nodes do not know what data they have. */
export function clusterOf(identity: string): GaleraCluster | undefined {
  const [, id = "", changes, nodes = ""] = /^galera ([\da-f-]{36}) (\d{1,15}) ([\da-f,-]+)$/.exec(identity) ?? [];
  if (changes === undefined || !/[1-9a-f]/.test(id)) return undefined;
  return { id, changes: Number(changes), nodes: nodes.split(",") };
}

/**
 * Whether a cluster went on from one identity to the other without a break. A node that starts draws another id. So where at least half
 * of the nodes are still there, no more than the other half crashed or was started again.
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

/** @throws SnowleaseError CONFIG_INVALID for a server that shares its writes with others in a way that is not supported. */
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

/** @throws SnowleaseError REGISTRY_UNAVAILABLE for a cluster whose nodes do not know what data they have. */
export function checkCluster(row: SqlRow | undefined, where: string): void {
  // A node that has never joined names no cluster; it refuses what comes next.
  const identity = row?.["identity"] ?? undefined;
  if (identity === undefined || clusterOf(String(identity)) !== undefined) return;
  throw new SnowleaseError(
    "REGISTRY_UNAVAILABLE",
    `MariaDB ${where} is in a cluster whose nodes do not know whether they have the same data (no wsrep_cluster_state_uuid), as after a crash of all of them; stop them, and form the cluster anew by the node that \`--wsrep-recover\` shows to be the latest.`,
  );
}
