import type { Redis } from "ioredis";
import type { DatabaseServer } from "./databases.ts";
import { defaultLayout } from "../../src/id/layout.ts";

/** A westid process that sends the commands of westid. It only checks whether `use:N` exists, and keeps no window. */
export class JavaPeer {
  readonly #client: Redis;
  readonly #pid: number;
  readonly ip: string;
  readonly #host: string;
  workerId: number | undefined;

  constructor(client: Redis, pid: number, ip = "10.0.0.1", host = "alpha") {
    this.#client = client;
    this.#pid = pid;
    this.ip = ip;
    this.#host = host;
  }

  get value(): string {
    return `${this.#pid}x${this.ip}x${this.#host}`;
  }

  /** Counts up from 0 to the first worker ID without a key. @throws Error "workerId used up" after `last`. */
  async start(last = 1023): Promise<number> {
    for (let n = 0; n <= last; n++) if (await this.take(n)) return n;
    throw new Error("workerId used up");
  }

  /** Takes this worker ID. `over`: even if another process has it. westid does this with the entries in the list of its own address. */
  async take(n: number, over = false): Promise<boolean> {
    const key = `workerId:use:${n}`;
    const done = over ? await this.#client.set(key, this.value) : await this.#client.setnx(key, this.value);
    if (done === 0) return false;
    await this.#client.lpush(`workerId:pid:${this.ip}`, `${this.#pid}x${n}`);
    this.workerId = n;
    return true;
  }

  /** The process ends. Its shutdown hook, or another process of its host, clears its keys away. */
  async leave(): Promise<void> {
    await this.#client.del(`workerId:use:${this.workerId}`);
    await this.#client.lrem(`workerId:pid:${this.ip}`, 0, `${this.#pid}x${this.workerId}`);
    this.workerId = undefined;
  }
}

/** A westid process on a table that sends the statements of westid. It knows the rows, and no windows. */
export class JavaRow {
  readonly #server: Pick<DatabaseServer, "query">;
  readonly #table: string;
  workerId: number | undefined;

  constructor(server: Pick<DatabaseServer, "query">, namespace: string) {
    this.#server = server;
    this.#table = `workerid_assign_${namespace}`;
  }

  /** The first worker ID without a row, or a worker ID from the number of rows on. @throws Error "workerId used up" after `last`. */
  async start(last = 1023): Promise<number> {
    const rows = await this.#server.query(`SELECT worker_id FROM ${this.#table}`);
    const taken = rows.map(({ worker_id }) => Number(worker_id)).toSorted((a, b) => a - b);
    const jumped = Array.from({ length: (taken.at(-1) ?? -1) + 1 }, (_, n) => n).filter((n) => !taken.includes(n));
    const behind = Array.from({ length: Math.max(0, last + 1 - taken.length) }, (_, i) => taken.length + i);
    for (const n of [...jumped, ...behind]) if (await this.take(n)) return n;
    throw new Error("workerId used up");
  }

  /** Adds its row. To westid, any error means "taken". */
  async take(n: number): Promise<boolean> {
    const values = `${n}, 4711, '10.0.0.9', 'java-1', CURRENT_TIMESTAMP`;
    const added = await this.#server
      .query(`INSERT INTO ${this.#table} (worker_id, pid, ip, hostname, create_time) VALUES (${values})`)
      .then(
        () => true,
        () => false,
      );
    if (added) this.workerId = n;
    return added;
  }

  /** Another process of its host clears its row away. */
  async leave(): Promise<void> {
    await this.#server.query(
      `DELETE FROM ${this.#table} WHERE worker_id = ${this.workerId} AND pid = 4711 AND ip = '10.0.0.9'`,
    );
    this.workerId = undefined;
  }
}

/** IDs as westid makes them on a worker ID: the first few of each ms in [from, until), by its own clock. */
export function javaIds(workerId: number, from: number, until: number): bigint[] {
  const ids: bigint[] = [];
  for (let time = from; time < until; time++) {
    for (let sequence = 0; sequence < 20; sequence++) {
      ids.push(defaultLayout.encode(defaultLayout.tickOf(time), workerId, sequence));
    }
  }
  return ids;
}
