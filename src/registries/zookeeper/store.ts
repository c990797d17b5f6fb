import type { OperationKind, Replacement, Standing, StoreChanges, StoreRead } from "../engine/port.ts";
import { type Answers, askAll, type Attempt } from "../engine/optimistic.ts";
import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import { together } from "../together.ts";
import type { OwnEphemerals } from "./ephemerals.ts";
import { erase } from "./erase.ts";
import { ConnectionLost, ReadLost } from "./errors.ts";
import { type Nodes, slotOf } from "./nodes.ts";
import type { Beginning, ZooKeeperReader } from "./reader.ts";
import { jsonBytes, recordBytes, standingBytes } from "./records.ts";
import type { Exchange, Write } from "./session.ts";
import { BeatenAt, commit, parentsOf } from "./transaction.ts";

/** What an attempt works with. */
interface Tools {
  readonly exchange: Exchange;
  readonly nodes: Nodes;
  readonly reader: ZooKeeperReader;
  readonly ephemerals: OwnEphemerals;
  readonly kind: OperationKind;
  /** Until when a removal deletes in one part, on the monotonic clock, ms. */
  readonly halt: number;
}

/** One attempt at an operation, on the nodes of a namespace. */
export class ZooKeeperAttempt implements Attempt {
  readonly #tools: Tools;
  #begun: (Beginning & { readonly session: number }) | undefined;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  async read(reads: readonly StoreRead[]): Promise<Answers> {
    const { exchange, reader } = this.#tools;
    try {
      return await exchange(async (session) => {
        const [begun, found] = await together([reader.begin(session), askAll(reader, reads)]);
        this.#begun = { ...begun, session: session.id };
        const { standing, clock } = begun;
        return { standing, clock, found, isGone: reader.isGone };
      });
    } catch (error) {
      // That the clock was written changes nothing.
      throw error instanceof ConnectionLost ? new ReadLost(error.message, { cause: error }) : error;
    }
  }

  async commit({ standing, becomes, records }: StoreChanges): Promise<void> {
    const { exchange, nodes, reader, ephemerals, kind, halt } = this.#tools;
    const { node, clock } = this.#reading;
    if (node !== undefined && standing.made !== undefined && becomes !== undefined && becomes.made === undefined) {
      return erase(exchange, nodes, { node, noted: becomes.noted, halt });
    }
    // Each operation reads behind a write of its own, so none lags: what only has to stand still was seen to stand.
    if (becomes === undefined && records.every(({ before, after }) => before === after)) return;
    const writes = [this.#stand(standing, becomes, records), ...records.flatMap((each) => this.#replace(each))];
    const isNewSlot = records.some(({ workerId }) => reader.missing.has(nodes.states(slotOf(workerId))));
    const left = records.flatMap(({ before, after }) => {
      const host = before?.pinned === undefined ? before?.holder?.host : undefined;
      return host === undefined || host === after?.holder?.host ? [] : [nodes.host(host)];
    });
    try {
      const done = await commit(exchange, nodes.root, writes, {
        folders: parentsOf(writes, nodes.root).filter((path) => isNewSlot || reader.missing.has(path)),
        // Removed only where this was the last worker ID of that host.
        also: (session) => [reader.storeNext(session), ...left.map((path) => session.remove(path))],
      });
      for (const { workerId, before, after } of records) {
        if (before?.token !== undefined && before.token !== after?.token) {
          ephemerals.forget(nodes.live(workerId, before.token));
        }
        if (after?.token !== undefined && isOfHolder(kind)) {
          ephemerals.note(done, nodes.live(workerId, after.token), after, clock);
        }
      }
    } catch (error) {
      if (!(error instanceof BeatenAt)) throw error;
      const lost = records.find(({ workerId }) => error.path === nodes.rows(workerId));
      if (lost !== undefined && standing.made !== undefined) await this.#replaceLost(lost.workerId, standing, clock);
      throw error;
    }
  }

  get #reading(): Beginning & { readonly session: number } {
    if (this.#begun === undefined) throw new Error("a write before a read");
    return this.#begun;
  }

  /** The write that proves what stands under the name, or changes it. */
  #stand({ made }: Standing, becomes: Standing | undefined, records: readonly Replacement[]): Write {
    const { meta: path } = this.#tools.nodes;
    const { node } = this.#reading;
    const isSameKind = (made === undefined) === (becomes?.made === undefined);
    const data = becomes && standingBytes(becomes, isSameKind ? node : undefined);
    if (node === undefined) return { op: "create", path, data, contested: true };
    const { version } = node;
    if (data !== undefined) return { op: "set", path, data, version };
    // A record that is deleted may come again with its version. What was decided before it was deleted must not be written then.
    const isDeleted = records.some(({ after }) => after === undefined);
    return isDeleted ? { op: "set", path, data: node.data, version } : { op: "check", path, version };
  }

  /** The writes that put a record, with the nodes by which claims find it, in the place of the one that was read. */
  #replace({ workerId, before, after, ended }: Replacement): readonly Write[] {
    const { nodes, reader } = this.#tools;
    const row = before && reader.rows.get(before);
    if (before !== undefined && row === undefined) throw new Error(`worker ${workerId} was not read`);
    const path = nodes.state(workerId);
    const rows = nodes.rows(workerId);
    const version = row?.version;
    if (after === before) {
      if (version !== undefined) return [{ op: "check", path, version }];
      // Proves that there is still no record.
      return after === undefined
        ? [
            { op: "create", path, contested: true },
            { op: "remove", path },
          ]
        : [];
    }
    const writes: Write[] = [];
    if (after === undefined) writes.push({ op: "remove", path, version }, { op: "remove", path: rows });
    else if (version !== undefined) writes.push({ op: "set", path, data: recordBytes(after, row), version });
    // Where only the parent of its rows exists, an operator deleted the record by hand.
    else {
      writes.push({ op: "create", path, data: recordBytes(after), contested: true });
      writes.push({ op: "create", path: rows, contested: true });
    }
    writes.push(...this.#refile(before, after));
    if (ended !== undefined) {
      writes.push({ op: "create", path: nodes.row(workerId, ended.fence), data: jsonBytes(ended) });
    }
    return writes;
  }

  /** The writes of all that names a record: indexes, its token, the node of its holder's session. */
  #refile(before: Stored | undefined, after: Stored | undefined): readonly Write[] {
    const { nodes, reader, ephemerals, kind } = this.#tools;
    const [old, present] = [before, after].map((record) => new Set(record && nodes.indexes(record)));
    const writes: Write[] = [];
    for (const path of old ?? []) if (!present?.has(path)) writes.push({ op: "remove", path });
    for (const path of present ?? []) if (!old?.has(path)) writes.push({ op: "create", path });
    if (before?.token !== undefined && before.token !== after?.token) {
      writes.push({ op: "remove", path: nodes.token(before.token) });
      const path = ephemerals.at(this.#reading.session, nodes.live(before.workerId, before.token));
      if (path !== undefined) writes.push({ op: "remove", path });
    }
    if (after?.token === undefined) return writes;
    const { workerId, token } = after;
    if (token !== before?.token) {
      // The same claim may have been sent twice, and take two numbers.
      const stale = reader.tokens.get(token);
      const [path, data] = [nodes.token(token), jsonBytes(workerId)];
      if (stale === undefined) writes.push({ op: "create", path, data, contested: true });
      else writes.push({ op: "set", path, data, version: stale.version });
    }
    const live = nodes.live(workerId, token);
    if (isOfHolder(kind) && ephemerals.at(this.#reading.session, live) === undefined) {
      writes.push({ op: "create", path: live, ephemeral: true });
    }
    return writes;
  }

  /**
   * Creates a record where an operator deleted one by hand: its number rests as long as any window of it may be open, and the fence is
   * above all earlier ones. Changes nothing where a record exists by now.
   */
  async #replaceLost(workerId: number, { made }: Standing, clock: number): Promise<void> {
    if (made === undefined) return;
    const { exchange, nodes, reader } = this.#tools;
    const { maxWindow, maxClockSkew } = made.info;
    const until = clock + maxWindow + maxClockSkew;
    await exchange(async (session) => {
      await reader.begin(session);
      // The last claim may have no row yet.
      const fence = (await reader.highestRow(workerId)) + 1;
      const lost: Stored = { ...unusedRecord(workerId), fence, from: until, until, knownFrom: until };
      await session.commit([
        { op: "create", path: nodes.state(workerId), data: recordBytes(lost) },
        ...nodes.indexes(lost).map((path) => ({ op: "create", path }) as const),
      ]);
    });
  }
}

/** Whether the one who asks is the holder: it keeps the node of its session. */
function isOfHolder(kind: OperationKind): boolean {
  return kind === "claim" || kind === "renew";
}
