import { plainAddress, whyShared } from "../addresses.ts";
import {
  type SourceContents,
  type Maker,
  quoted,
  type Reach,
  type RetiredRange,
  type SourceRequest,
  wholeNumber,
} from "../source.ts";
import { holderIn } from "./packed.ts";
import { readRedis, type RedisSource, textOf, textsOf } from "./redis.ts";
import { column, readSql } from "./sql.ts";

/** How many entries of a list are read at once. */
const page = 1000;
/** A program takes the lowest free worker ID at its start, even a released one. */
const takesOver = "westid gives it to the next program that starts";
const reachOf = ({ numbers }: SourceRequest): Reach => ({ next: "any", highest: numbers - 1 });

/** The entries of a westid fleet. Each pair of worker ID and address makes one entry, even if it occurs several times. */
class Entries {
  readonly #makers = new Map<string, Maker>();
  readonly #retired = new Map<number, RetiredRange>();
  readonly #remarks = new Set<string>();

  maker(workerId: number, ip: string, pid: string, host?: string): void {
    const key = `${workerId} ${ip}`;
    if (host === undefined && this.#makers.has(key)) return;
    const why = whyUnknown(ip);
    if (why !== undefined) this.remark(`${ip} does not identify a host: ${why}. Programs there get other worker IDs.`);
    const address = why === undefined ? plainAddress(ip) : undefined;
    this.#makers.set(key, { workerId, name: `${host ?? ip}/${pid}`, address });
  }

  retire(workerId: number, why: string): void {
    this.#retired.set(workerId, { first: workerId, last: workerId, why });
  }

  remark(text: string): void {
    this.#remarks.add(text);
  }

  findings(request: SourceRequest): SourceContents {
    const makers = [...this.#makers.values()].toSorted((a, b) => a.workerId - b.workerId);
    const retired = [...this.#retired.values()].toSorted((a, b) => a.first - b.first);
    return { makers, retired, reach: reachOf(request), takesOver, remarks: [...this.#remarks] };
  }
}

/**
 * Why an address that westid noted does not identify a host. westid takes the first IPv4 address that is not a loopback. It may be the
 * address of a bridge. Without one, westid takes the address of the host's name, and of an IPv6 address only the first 4 bytes.
 */
function whyUnknown(ip: string): string | undefined {
  const first = Number(ip.split(".")[0]);
  if (first >= 240) return "it is the first 4 bytes of an IPv6 address";
  if ([32, 36, 38, 40, 42, 44].includes(first)) return "it may be the first 4 bytes of an IPv6 address";
  return whyShared(ip);
}

/**
 * `workerId:use:N` = `{pid}x{ip}x{hostname}`: N is taken, until a program on that host finds that the process is gone.
 * `workerId:pid:{ip}` = list of `{pid}x{N}`: if the process of an entry is gone, a program at that address takes its worker ID, even
 * if the `use` key is missing or another program has it. Entries of Snowlease's own leases are ignored.
 */
export function readWestidRedis(request: SourceRequest): Promise<SourceContents> {
  return readRedis(request, async (source) => {
    const entries = new Entries();
    for await (const keys of source.scan("workerId:[pu]*")) {
      const uses = keys.filter((key) => key.startsWith(use));
      const lists = keys.filter((key) => key.startsWith(list) && !key.startsWith(`${list}lease@`));
      await readUses(source, entries, uses);
      for (const key of lists) await readList(source, entries, key);
    }
    return entries.findings(request);
  });
}

const [use, list, record] = ["workerId:use:", "workerId:pid:", "workerId:window:"];

async function readUses({ ask }: RedisSource, entries: Entries, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const replies = await ask(
    ...keys.flatMap((key) => [["GET", key] as const, ["HGET", record + key.slice(use.length), "record"] as const]),
  );
  for (const [i, key] of keys.entries()) {
    const [reply, packed] = [replies[2 * i], replies[2 * i + 1]];
    // The key disappeared after the scan.
    if (reply === null) continue;
    const [workerId, text] = [wholeNumber(key.slice(use.length)), textOf(reply)];
    if (workerId === undefined) {
      entries.remark(`${printed(key)} names no worker ID: left out.`);
      continue;
    }
    const holder = packed instanceof Uint8Array ? holderIn(packed) : undefined;
    if (holder !== undefined && text === `${holder.pid}x${holder.ip}x${holder.host}`) continue;
    const [, pid, ip = "", host] = /^(\d{1,10})x([^x]*)x(.+)$/s.exec(text ?? "") ?? [];
    if (pid !== undefined && host !== undefined) {
      entries.maker(workerId, ip, pid, host);
      continue;
    }
    const got = text === undefined ? "no text" : quoted(text);
    entries.remark(`${key} is ${got} and not {pid}x{ip}x{hostname}: pinned for no host.`);
    entries.retire(workerId, `taken at ${key} by an unknown program`);
  }
}

async function readList({ ask }: RedisSource, entries: Entries, key: string): Promise<void> {
  for (let first = 0; ; first += page) {
    const [reply] = await ask(["LRANGE", key, first, first + page - 1]);
    if (reply === undefined) return entries.remark(`${printed(key)} is no list: left out.`);
    const found = textsOf(reply);
    for (const entry of found) {
      const [, pid = "", id = ""] = /^(\d{1,10})x(\d+)$/.exec(entry) ?? [];
      const workerId = wholeNumber(id);
      if (workerId === undefined) entries.remark(`${printed(key)} has ${quoted(entry)} and not {pid}x{N}: left out.`);
      else entries.maker(workerId, key.slice(list.length), pid);
    }
    if (found.length < page) return;
  }
}

function printed(key: string): string {
  return quoted(key).slice(1, -1);
}

/** `workerid_assign`: one row for each taken worker ID. Rows of Snowlease have a marker instead of an address. */
export async function readWestidSql(request: SourceRequest): Promise<SourceContents> {
  const select = "SELECT worker_id, pid, ip, hostname FROM workerid_assign ORDER BY worker_id";
  const entries = new Entries();
  for (const row of await readSql(request, select, "table workerid_assign")) {
    const [id = "", pid = "?", ip = "", host = "?"] = ["worker_id", "pid", "ip", "hostname"].map((name) =>
      column(row, name)?.trim(),
    );
    const workerId = wholeNumber(id);
    if (ip.startsWith("lease@")) continue;
    if (workerId === undefined) entries.remark(`workerid_assign has a row of worker ${quoted(id)}: left out.`);
    else entries.maker(workerId, ip, pid, host);
  }
  return entries.findings(request);
}
