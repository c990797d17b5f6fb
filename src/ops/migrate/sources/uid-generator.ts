import { isSnowleaseError, SnowleaseError } from "../../../id/errors.ts";
import { plainAddress } from "../addresses.ts";
import { type SourceContents, type Maker, quoted, type SourceRequest, wholeNumber } from "../source.ts";
import { column, readSql } from "./sql.ts";

/**
 * Queries for the last ID that a database's counter gave out, as `last_id`. The rows do not show it, because rows may have been deleted
 * and a failed start uses up an ID. The result has no row if the table has no counter.
 */
const counters: Readonly<Record<string, string>> = {
  mysql: "SHOW CREATE TABLE WORKER_NODE",
  postgres:
    "SELECT has_sequence_privilege(name, 'SELECT, USAGE') AS readable, CASE WHEN has_sequence_privilege(name, 'SELECT, USAGE')" +
    " THEN coalesce(pg_sequence_last_value(name), 0) END AS last_id, name::text AS name, current_user AS asker" +
    " FROM (SELECT pg_get_serial_sequence('worker_node', 'id')::regclass AS name) AS counter WHERE name IS NOT NULL",
  oracle:
    "SELECT max(s.last_number) AS last_id FROM all_tab_identity_cols c JOIN all_sequences s" +
    " ON s.sequence_owner = c.owner AND s.sequence_name = c.sequence_name WHERE c.table_name = 'WORKER_NODE'",
};

/** PostgreSQL notes up to this many IDs of a sequence in advance. After a crash, it continues after them. */
const notedAhead = 32;

/** The last ID that the counter gave out. Undefined if no counter is visible. */
async function counted(request: SourceRequest): Promise<number | undefined> {
  const { kind, redacted } = request.address;
  const [row] = await readSql(request, counters[kind] ?? "", "counter of WORKER_NODE").catch((error: unknown) => {
    // Servers older than Oracle 12 have no such columns.
    if (isSnowleaseError(error, "NOT_FOUND")) return [];
    throw error;
  });
  if (row === undefined) return undefined;
  if (row["readable"] === false) {
    throw new SnowleaseError(
      "FORBIDDEN",
      `The sequence ${column(row, "name")} of WORKER_NODE cannot be read at ${redacted}, and it counts numbers whose rows were deleted; run \`GRANT SELECT ON SEQUENCE ${column(row, "name")} TO ${column(row, "asker")}\`.`,
    );
  }
  if (kind !== "mysql") return wholeNumber(column(row, "last_id") ?? "");
  // AUTO_INCREMENT is missing until the first row is inserted.
  const text = column(row, "Create Table");
  return text === undefined ? undefined : Number(/\bAUTO_INCREMENT=(\d+)/.exec(text)?.[1] ?? 1) - 1;
}

/**
 * `WORKER_NODE`: one row for each start. The ID of the row is the worker ID. Each start takes a new one. All worker IDs that were ever
 * handed out are burnt for good, because a cached generator may run ahead of the clock. The newest row of a host counts.
 */
export async function readUidGenerator(request: SourceRequest): Promise<SourceContents> {
  const select =
    "SELECT HOST_NAME AS host_name, MAX(ID) AS worker_id FROM WORKER_NODE GROUP BY HOST_NAME ORDER BY MAX(ID)";
  const makers: Maker[] = [];
  const remarks: string[] = [];
  for (const row of await readSql(request, select, "table WORKER_NODE")) {
    const [host = "", id = ""] = [column(row, "host_name")?.trim(), column(row, "worker_id")];
    const workerId = wholeNumber(id);
    if (workerId === undefined) remarks.push(`WORKER_NODE has a row with the ID ${quoted(id)}: left out.`);
    else makers.push({ workerId, name: host || "?", address: plainAddress(host) });
  }
  const count = await counted(request);
  if (count === undefined)
    remarks.push(
      "WORKER_NODE has no visible counter (is it a sequence behind a trigger?): worker IDs above its highest row may have been given out. Check that, and choose `--headroom` accordingly.",
    );
  const last = Math.max(0, count ?? 0, ...makers.map(({ workerId }) => workerId));
  const ahead = request.address.kind === "postgres" && count !== undefined ? notedAhead : 0;
  const why = "burnt by uid-generator, which may have used times ahead of the clock";
  return {
    makers,
    retired: last === 0 ? [] : [{ first: 1, last, why, forGood: true }],
    reach: { next: "above", highest: last === 0 ? 0 : Math.max(last, (count ?? 0) + ahead) },
    takesOver: "uid-generator never uses a number twice",
    remarks,
  };
}
