import { plainAddress } from "../addresses.ts";
import { type Findings, type Maker, quoted, type RetiredRange, type SourceRequest, wholeNumber } from "../source.ts";
import { nothingThere, readRedis, textOf } from "./redis.ts";
import { column, readSql } from "./sql.ts";

/** Worker IDs of a Java westid: 10 bits. */
const most = 1024;
const batch = 256;

/** `workerId:use:N` = `{pid}x{ip}x{hostname}`: N is taken, until somebody on that host finds that the process is gone. */
export function readWestidRedis(request: SourceRequest): Promise<Findings> {
  return readRedis(request, async ({ where, ask }) => {
    const makers: Maker[] = [];
    const retired: RetiredRange[] = [];
    const remarks: string[] = [];
    for (let first = 0; first < most; first += batch) {
      const keys = Array.from({ length: batch }, (_, i) => `workerId:use:${first + i}`);
      const replies = await ask(...keys.map((key) => ["GET", key] as const));
      for (const [i, reply] of replies.entries()) {
        if (reply === null) continue;
        const [workerId, text] = [first + i, textOf(reply)];
        const [, pid, ip = "", host] = /^(\d{1,10})x([^x]*)x(.+)$/s.exec(text ?? "") ?? [];
        if (pid !== undefined && host !== undefined) {
          makers.push({ workerId, name: `${host}/${pid}`, address: plainAddress(ip) });
          continue;
        }
        const key = `workerId:use:${workerId}`;
        const got = text === undefined ? "no text" : quoted(text);
        remarks.push(`${key} is ${got} and not {pid}x{ip}x{hostname}: pinned for nobody.`);
        retired.push({ first: workerId, last: workerId, why: `taken at ${key}, nobody knows by whom` });
      }
    }
    if (makers.length + retired.length === 0)
      throw nothingThere("key workerId:use:N", where, "name the Redis of westid");
    return { makers, retired, takesOver: true, remarks };
  });
}

/** `workerid_assign`: a row a number that is taken. Those of our own bear a marker in the place of an address. */
export async function readWestidSql(request: SourceRequest): Promise<Findings> {
  const select = "SELECT worker_id, pid, ip, hostname FROM workerid_assign ORDER BY worker_id";
  const makers: Maker[] = [];
  const remarks: string[] = [];
  for (const row of await readSql(request, select, "table workerid_assign")) {
    const [id = "", pid = "?", ip = "", host = "?"] = ["worker_id", "pid", "ip", "hostname"].map((name) =>
      column(row, name)?.trim(),
    );
    const workerId = wholeNumber(id);
    if (ip.startsWith("lease@")) continue;
    if (workerId === undefined) remarks.push(`workerid_assign has a row of worker ${quoted(id)}: left out.`);
    else makers.push({ workerId, name: `${host}/${pid}`, address: plainAddress(ip) });
  }
  return { makers, retired: [], takesOver: true, remarks };
}
