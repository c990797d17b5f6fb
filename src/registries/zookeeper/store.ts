import type { OperationKind, Replacement, Standing, StoreChanges, StoreRead } from "../engine/port.ts";
import { type Answers, askAll, type Attempt } from "../engine/optimistic.ts";
import { unusedRecord } from "../../rule/pin.ts";
import type { Stored } from "../../rule/window.ts";
import { together } from "../together.ts";
import type { OwnEphemerals } from "./ephemerals.ts";
import { erase } from "./erase.ts";
import { missingNode } from "./errors.ts";
import { Unanswered } from "../engine/operate.ts";
import { type Nodes, slotOf } from "./nodes.ts";
import type { Beginning, ZooKeeperReader } from "./reader.ts";
import { jsonBytes, recordBytes, standingBytes } from "./records.ts";
import type { Exchange, Node, Write } from "./session.ts";
import { BeatenAt, commit } from "./transaction.ts";

/** The tools of an attempt. */
interface Tools {
  readonly exchange: Exchange;
  readonly nodes: Nodes;
  readonly reader: ZooKeeperReader;
  readonly ephemerals: OwnEphemerals;
  readonly kind: OperationKind;
  /** When a removal stops deleting in this part, on the monotonic clock, ms. */
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
      // Only the clock was written, which changes nothing.
      throw error instanceof Unanswered ? new Unanswered(error.message, { cause: error, wrote: false }) : error;
    }
  }

  async commit({ standing, becomes, records }: StoreChanges): Promise<void> {
    const { exchange, nodes, reader, ephemerals, halt } = this.#tools;
    const { node, clock } = this.#reading;
    const isRemoved = standing.made !== undefined && becomes !== undefined && becomes.made === undefined;
    // Each operation reads after a write of its own, so the reads do not lag. If there is nothing to write, they have already shown that
    // the conditions hold.
    const isNothing = records.every((each) => each.before === each.after && !this.#isUnseen(each));
    if (becomes === undefined && isNothing) return;
    const isNewSlot = records.some(({ workerId }) => reader.missing.has(nodes.states(slotOf(workerId))));
    // The guard comes first. Otherwise a worker ID that got a holder meanwhile would look like one with another program's nodes.
    const guard = records.some(({ before }) => before?.fence === 0) ? [this.#guard(records)] : [];
    // If an operator deleted the guard's node, all earlier decisions must fail.
    const isAnew = guard.some(({ op }) => op === "create");
    const stand = this.#stand(standing, isRemoved ? undefined : becomes, isAnew);
    const isMade = standing.made === undefined && becomes?.made !== undefined;
    const first: Write[] = isMade ? [{ op: "create", path: nodes.unpins }] : [];
    const writes = [...guard, ...first, ...records.flatMap((each) => this.#replace(each))];
    const left = records.flatMap(({ before, after }) => {
      const host = before?.pinned === undefined ? before?.holder?.host : undefined;
      return host === undefined || host === after?.holder?.host ? [] : [nodes.host(host)];
    });
    try {
      if (isRemoved) return await erase(exchange, nodes, { stand, noted: becomes.noted, halt });
      const done = await commit(exchange, nodes, {
        stand,
        writes,
        // A user that makes a namespace may have more rights than the users that lease from it.
        folders: isMade ? nodes.folders : [],
        isMissing: (folder) => isNewSlot || reader.missing.has(folder) || (node === undefined && folder === nodes.root),
        // The server removes this node only if the host has no other worker ID.
        also: (session) => [
          ...reader.storeNext(
            session,
            stand.filter(({ op }) => op === "check"),
          ),
          ...left.map((path) => session.remove(path)),
        ],
      });
      for (const { workerId, before, after, isEvidence = false } of records) {
        if (before?.token !== undefined && before.token !== after?.token) {
          ephemerals.forget(nodes.live(workerId, before.token));
        }
        if (after?.token !== undefined && this.#isOfHolder && !isEvidence) {
          ephemerals.note(done, nodes.live(workerId, after.token), after, clock);
        }
      }
    } catch (error) {
      if (!(error instanceof BeatenAt)) throw error;
      if (error.path !== undefined && error.path === nodes.mark(standing)) await this.#checkMark(error.path);
      const lost = records.find(({ workerId }) => error.path === nodes.rows(workerId));
      if (lost !== undefined) await this.#replaceLost(lost.workerId, standing, becomes);
      throw error;
    }
  }

  /** If the mark is gone, but the namespace is as it was read, an operator deleted the mark. @throws SnowleaseError SCHEMA_INCOMPATIBLE */
  async #checkMark(mark: string): Promise<void> {
    const { exchange, nodes } = this.#tools;
    const [present, marked] = await exchange((session) => together([session.get(nodes.meta), session.get(mark)]));
    const { node } = this.#reading;
    if (marked === undefined && node !== undefined && present !== undefined && isSame(node, present)) {
      throw missingNode(mark);
    }
  }

  get #reading(): Beginning & { readonly session: number } {
    if (this.#begun === undefined) throw new Error("a write before a read");
    return this.#begun;
  }

  /** Whether the holder makes this request. The holder keeps the node of its session. */
  get #isOfHolder(): boolean {
    return this.#tools.kind === "claim" || this.#tools.kind === "renew";
  }

  /** Whether the holder asks, and its session has no node yet. */
  #isUnseen({ workerId, after, isEvidence = false }: Replacement): boolean {
    const { nodes, ephemerals } = this.#tools;
    if (after?.token === undefined || isEvidence || !this.#isOfHolder) return false;
    return ephemerals.at(this.#reading.session, nodes.live(workerId, after.token)) === undefined;
  }

  /**
   * The writes that prove what stands under the name, or change it. `isSet`: writes it again, so that other attempts have to read it again.
   */
  #stand(standing: Standing, becomes: Standing | undefined, isSet: boolean = false): readonly Write[] {
    const { meta: path } = this.#tools.nodes;
    const { node } = this.#reading;
    const { made } = standing;
    const isSameKind = (made === undefined) === (becomes?.made === undefined);
    const data = becomes && standingBytes(becomes, isSameKind ? node : undefined);
    const [before, after] = [standing, becomes ?? standing].map(this.#tools.nodes.mark);
    const marks: Write[] = [];
    if (before !== undefined) marks.push({ op: before === after ? "check" : "remove", path: before });
    if (after !== undefined && after !== before) marks.push({ op: "create", path: after, contested: true });
    if (node === undefined) return [{ op: "create", path, data, contested: true }, ...marks];
    const { version } = node;
    const isChanged = data !== undefined || isSet;
    return [
      isChanged ? { op: "set", path, data: data ?? node.data, version } : { op: "check", path, version },
      ...marks,
    ];
  }

  /**
   * The write that guards records without a claim. Only such a record can be deleted, and can come again with the same version. A decision
   * from before that must not be written then.
   */
  #guard(records: readonly Replacement[]): Write {
    const { unpins: path } = this.#tools.nodes;
    const { unpins } = this.#tools.reader;
    if (unpins === undefined) throw new Error("a record without a claim was read before what guards it");
    const { node } = unpins;
    // An operator deleted the node.
    if (node === undefined) return { op: "create", path, contested: true };
    const { version } = node;
    const isDeleted = records.some(({ after }) => after === undefined);
    return isDeleted ? { op: "set", path, data: new Uint8Array(), version } : { op: "check", path, version };
  }

  /** The writes that replace the record that was read, together with the nodes by which claims find it. */
  #replace(replacement: Replacement): Write[] {
    const { nodes, reader } = this.#tools;
    const { workerId, before, after, ended } = replacement;
    const row = before && reader.rows.get(before);
    if (before !== undefined && row === undefined) throw new Error(`worker ${workerId} was not read`);
    const path = nodes.state(workerId);
    const rows = nodes.rows(workerId);
    const version = row?.version;
    const writes: Write[] = [];
    if (after === before) {
      if (version !== undefined) writes.push({ op: "check", path, version });
      // Proves that there is still no record.
      else writes.push({ op: "create", path, contested: true }, { op: "remove", path });
    } else if (after === undefined) writes.push({ op: "remove", path, version }, { op: "remove", path: rows });
    else if (version !== undefined) writes.push({ op: "set", path, data: recordBytes(after, row), version });
    // If only the parent of its rows exists, an operator deleted the record by hand.
    else {
      writes.push({ op: "create", path, data: recordBytes(after), contested: true });
      writes.push({ op: "create", path: rows, contested: true });
    }
    writes.push(...this.#refile(before, after));
    if (ended !== undefined) {
      writes.push({ op: "create", path: nodes.row(workerId, ended.fence), data: jsonBytes(ended) });
    }
    writes.push(...this.#resession(replacement));
    return writes;
  }

  /** The writes of the nodes that show the session of a holder. Each claim of this client has one such node. */
  #resession(replacement: Replacement): readonly Write[] {
    const { nodes, reader, ephemerals } = this.#tools;
    const { workerId, before, after } = replacement;
    const isNew = after?.token !== undefined && this.#isUnseen(replacement);
    const isOver = before?.token !== undefined && before.token !== after?.token;
    const own = isOver ? ephemerals.at(this.#reading.session, nodes.live(workerId, before.token)) : undefined;
    // If the nodes were listed, this also removes nodes whose creation got no answer.
    const old = isOver ? (reader.sessions.get(before) ?? (own === undefined ? [] : [own])) : [];
    const writes = old.map((path): Write => ({ op: "remove", path }));
    return isNew ? [...writes, { op: "create", path: nodes.live(workerId, after.token), ephemeral: true }] : writes;
  }

  /** The writes of all nodes that point to a record: its indexes and its token. */
  #refile(before: Stored | undefined, after: Stored | undefined): readonly Write[] {
    const { nodes, reader } = this.#tools;
    const [old, present] = [before, after].map((record) => new Set(record && nodes.indexes(record)));
    const writes: Write[] = [];
    for (const path of old ?? []) if (!present?.has(path)) writes.push({ op: "remove", path });
    for (const path of present ?? []) if (!old?.has(path)) writes.push({ op: "create", path });
    if (before?.token === after?.token) return writes;
    if (before?.token !== undefined) writes.push({ op: "remove", path: nodes.token(before.token) });
    if (after?.token !== undefined) {
      // A claim that was sent twice must not take two worker IDs.
      const stale = reader.tokens.get(after.token);
      const [path, data] = [nodes.token(after.token), jsonBytes(after.workerId)];
      if (stale === undefined) writes.push({ op: "create", path, data, contested: true });
      else writes.push({ op: "set", path, data, version: stale.version });
    }
    return writes;
  }

  /**
   * Creates a record in the place of one that an operator deleted by hand. The worker ID rests as long as any of its windows may be open.
   * The fence is higher than those in its history. Earlier decisions must not be written after this, because the version of the node begins
   * again.
   */
  async #replaceLost(workerId: number, standing: Standing, becomes: Standing | undefined): Promise<void> {
    const { exchange, nodes, reader } = this.#tools;
    const { clock } = this.#reading;
    const info = (becomes?.made ?? standing.made)?.info;
    if (info === undefined) return;
    const until = clock + info.maxWindow + info.maxClockSkew;
    // The last claim may have no row yet.
    const fence = (await exchange(() => reader.highestRow(workerId))) + 1;
    const lost: Stored = { ...unusedRecord(workerId), fence, from: until, until, knownFrom: until };
    const writes: Write[] = [{ op: "create", path: nodes.state(workerId), data: recordBytes(lost), contested: true }];
    writes.push(...nodes.indexes(lost).map((path): Write => ({ op: "create", path })));
    await commit(exchange, nodes, { stand: this.#stand(standing, becomes, true), writes });
  }
}

function isSame(a: Node, b: Node): boolean {
  return a.version === b.version && Buffer.compare(a.data, b.data) === 0;
}
