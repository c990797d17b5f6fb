import type { Registry } from "../rule/registry.ts";

/**
 * Capabilities that a store may lack without breaking the rule.
 *
 * - `creates-namespaces`: a claim in a namespace without `init` creates the namespace.
 * - `one-grant-a-token`: repeats of a claim that arrive at the same time get one grant. A store that writes one object at a time may give
 *   each its own worker ID: the holder uses one, and the others rest until their windows have passed.
 * - `long-recents`: recents of more than 4 KiB are kept. Without them the next holder begins after the window of the one before.
 * - `oldest-first`: if nothing else decides, the worker ID whose window ended longest ago is granted.
 * - `connections`: each registry object is a connection of its own, and refuses all calls after `close`.
 * - `receipts`: grants and renewals return receipts. A registry without them does not notice that its store is an older copy.
 * - `plain-receipts`: a receipt is the text that the rule writes, so that a check can invent one. A daemon signs its receipts.
 * - `copies`: an operator can separate a copy from its original. A daemon leaves that to its store.
 * - `removals`: an operator can remove a namespace.
 * - `late-writes`: the subject has `late`. A store that reads and writes in one step does not need it.
 * - `lost-answers`: the subject has `lossy`. A store without a connection does not need it.
 */
export type Capability =
  | "creates-namespaces"
  | "one-grant-a-token"
  | "long-recents"
  | "oldest-first"
  | "connections"
  | "receipts"
  | "plain-receipts"
  | "copies"
  | "removals"
  | "late-writes"
  | "lost-answers";

/** A store that a check puts back to an older copy of itself while a write is on its way to it. */
export interface LateStore {
  /** A client whose writes can be kept on their way. The check closes it. */
  readonly registry: Registry;
  /** Keeps the next write of a record. Resolves when that write is on its way: the client has decided it by what it read. */
  keepNext(): Promise<void>;
  /** Copies the store as it is. Resolves to a function that puts that copy in its place. */
  copy(): Promise<() => Promise<unknown>>;
  /** Lets the kept write arrive, as the server would get it. */
  arrive(): void;
}

/** A store, and a client of it to which a check loses an answer. */
export interface LossyStore {
  /** The client. The check closes it. */
  readonly registry: Registry;
  /** Keeps the answer to the client's next write. Resolves when the store answers. */
  keepAnswer(): Promise<void>;
  /** Breaks the connection of that answer. */
  lose(): void;
}

/** The subject of one check. Everything in it is made for that check alone. */
export interface ConformanceSubject {
  /** A namespace that is unused in this store, like the same name followed by `_b`; at most 30 characters. */
  readonly namespace: string;
  /** Opens another client of this check's store. The check closes it. */
  open(): Promise<Registry>;
  /** Resolves after the registry's clock has advanced by at least `ms`: a real sleep, or a step of a fake clock. */
  pause(ms: number): Promise<void>;
  /** The holders' clock, Unix ms. */
  now(): number;
  /** The longest wait for the end of a window or a quarantine, ms. A longer one fails the check. Default: 5 s. */
  readonly longestWait?: number | undefined;
  /** The store with a client whose writes can be kept on their way. Without this function, the checks of `late-writes` are skipped. */
  late?(): Promise<LateStore>;
  /** The store with a client whose answers can be lost. Without this function, the checks of `lost-answers` are skipped. */
  lossy?(): Promise<LossyStore>;
  /** Capabilities that this registry lacks, each with the reason. Checks that need them are skipped. */
  readonly lacks?: Readonly<Partial<Record<Capability, string>>> | undefined;
  /** Deletes everything that was made for this check. */
  close?(): Promise<void>;
}
