import type { SqlErrorMeaning } from "../dialect.ts";
import * as meanings from "../meanings.ts";

const noLog = meanings.config(
  "cannot log what it is asked to do",
  "set binlog_format to ROW or MIXED there, or grant this user BINLOG ADMIN (in MySQL SESSION_VARIABLES_ADMIN)",
);

const outside = meanings.passing(
  "is no working part of its cluster at the moment",
  "look at wsrep_cluster_status and wsrep_local_state_comment there, or name a node that works",
);
const clusterRights = {
  ...meanings.rights,
  says: "does not let this user see the nodes of its cluster",
  advice: "grant SELECT on mysql.wsrep_cluster and on mysql.wsrep_cluster_members",
};

/** The error numbers of MySQL and MariaDB, which share most of them. `session.one-row` fails with 1242. */
const known = meanings.byCode<SqlErrorMeaning>(
  // If another node was faster, a node of a cluster answers a commit with 1213, and a node of a replication group with 3101.
  [meanings.raced, "1020 1050 1062 1205 1213 1242 1412 3101"],
  [meanings.full, "1021 1114"],
  [meanings.readOnly, "1036 1290 1792 1836"],
  [outside, "1047"],
  [meanings.connections, "1040 1203 1226"],
  [meanings.rights, "1044 1142 1143 1227 1370"],
  [meanings.login, "1045 1130 1251 1524 1698"],
  [meanings.noDatabase, "1049"],
  [meanings.starting, "1053 1927"],
  [meanings.missing, "1054 1146"],
  [{ ...meanings.login, says: "has shut this host out", advice: "run FLUSH HOSTS there" }, "1129"],
  [meanings.text, "1264 1366 1406"],
  [meanings.slow, "1317 1969 3024"],
  [noLog, "1665"],
);

/** The meaning of an error of MySQL or MariaDB. */
export function meaningOf(error: unknown): SqlErrorMeaning | undefined {
  // An error of the connection has an error number of the operating system, or none.
  if (!(error instanceof Error) || !("errno" in error) || !("sqlState" in error)) return undefined;
  if (typeof error.errno !== "number" || error.errno < 1000) return undefined;
  if (error.errno === 1142 && /wsrep_cluster/.test(error.message)) return clusterRights;
  return known.get(String(error.errno)) ?? { ...meanings.starting, says: "failed" };
}

/** Whether a commit that got this error may still be done: the other servers may have received it before this one was cut off. */
export function isUnclear(error: unknown): error is Error {
  return error instanceof Error && "errno" in error && (error.errno === 1180 || error.errno === 3100);
}
