import { plainAddress } from "../addresses.ts";
import { type Findings, type Maker, quoted, type SourceRequest, wholeNumber } from "../source.ts";
import { column, readSql } from "./sql.ts";

/**
 * `WORKER_NODE`: a row a start, whose ID is the number. Each start takes a new one; all up to the highest are burnt, and for good: a
 * cached generator may run ahead of the clock. A host is where the newest of its rows says.
 */
export async function readUidGenerator(request: SourceRequest): Promise<Findings> {
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
  const last = Math.max(0, ...makers.map(({ workerId }) => workerId));
  const why = "burnt by uid-generator, which may have used times ahead of the clock";
  return {
    makers,
    retired: last === 0 ? [] : [{ first: 1, last, why, forGood: true }],
    takesOver: "uid-generator never uses a number twice",
    remarks,
  };
}
