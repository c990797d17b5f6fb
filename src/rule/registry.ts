import type { PoolBounds } from "../id/pool-bounds.ts";

/*
 * The port that every store implements. It is written as promises; `conformance.ts` checks them.
 *
 * For all methods: an adapter owns its connection, lets no driver type through and parses what it reads. It retries, within
 * its operation timeout, only what is known not to have been applied. It throws a SnowleaseError: REGISTRY_UNAVAILABLE when
 * the answer is unknown (the operation may have been applied), another code when it is known that nothing was changed.
 * All times are Unix ms. Safety rests on three promises alone: `until` is on durable storage before an answer names it, only
 * `release` by the holder ever lowers it, and a claim never opens a window before it.
 */

/** Durable authority over who may use a worker ID, and for which span of embedded time. */
export interface Registry {
  /** The kind of store: "sqlite", "redis", ... */
  readonly kind: string;

  /**
   * Creates a namespace, or checks an existing one: LAYOUT_MISMATCH for another layout, CONFIG_INVALID for other limits, or for
   * `new` where anything in it was used. Repeatable. A store that cannot tell a namespace that it forgot from one that never was
   * creates it in quarantine, unless `new` is said.
   */
  init(request: InitRequest): Promise<NamespaceInfo>;

  /** What is fixed for a namespace; undefined when it does not exist yet. */
  describe(namespace: string): Promise<NamespaceInfo | undefined>;

  /**
   * One atomic step: picks a free worker ID, raises its fence, stores token and window. Idempotent by token: asked again, the
   * same grant comes back, fence and window unmoved, inherited recents included until the first renewal. Creates the
   * namespace when it is missing. Throws CLOCK_SKEW, LAYOUT_MISMATCH, QUARANTINE, CONFIG_INVALID.
   */
  claim(request: ClaimRequest): Promise<Grant | Refusal>;

  /**
   * Compare-and-set on (worker ID, fence, token, not released): raises `until`, never lowers it, and lets the checkpoint only
   * rise. A holder may renew past its `until` as long as nobody else has claimed. Throws CLOCK_SKEW, QUARANTINE, and
   * CONFIG_INVALID for a checkpoint outside of what the holder may use.
   */
  renew(request: RenewRequest): Promise<Renewal | Lost>;

  /**
   * Ends the claim and stores what was used, in one step. Repeating it answers "released" and changes nothing. CONFIG_INVALID
   * for a `used.until` outside the window or not past every checkpoint, or recents that reach below what this holder may know.
   */
  release(request: ReleaseRequest): Promise<Released | Lost>;

  /**
   * Takes blocks of a window that is shared with others (`Grant.shared`): sequences of so many spans that are the asker's alone from
   * then on. Only where a holder lends its lease to other processes. A lost answer costs the blocks.
   */
  takeBlocks?(request: BlocksRequest): Promise<BlocksTaken | Lost>;

  /** Worker IDs that were ever used or are pinned, in ascending order, a page at a time. */
  workers(namespace: string, page?: WorkersPage): Promise<readonly WorkerRecord[]>;

  /** One worker ID; undefined when it was never used. */
  worker(namespace: string, workerId: number): Promise<WorkerRecord | undefined>;

  /** Who held a worker ID: a row a claim, oldest first. The window of the present holder is its live one. */
  history(namespace: string, workerId: number, range?: HistoryRange): Promise<readonly HistoryRow[]>;

  /** Ends somebody's claim, if it is the one that is meant. The window stays closed, and the right to continue is void. */
  forceRelease(request: ForceReleaseRequest): Promise<ForceReleased>;

  /**
   * Keeps a worker ID out of the pool, for its owner where one is named. A present holder goes on. Pinning again replaces reason
   * and owner. NOT_FOUND where the namespace does not exist, CONFIG_INVALID for an owner's `usedUntil` that no clock can have reached, WORKER_ID_HELD for one behind the beginning
   * of a present holder's window.
   */
  pin(namespace: string, workerId: number, reason: string, owner?: PinOwner): Promise<void>;

  /**
   * Puts a pinned worker ID back; its window stays as it was, and of one that nobody ever claimed nothing is left. False when it
   * was not pinned.
   */
  unpin(namespace: string, workerId: number): Promise<boolean>;

  /**
   * Pins several worker IDs, at most 64 and each once, as `pin` does, in as few steps as the store allows. Where it throws, some of them may be pinned: it can
   * be repeated. Absent where the store has no way that is faster than one by one.
   */
  pinAll?(namespace: string, pins: readonly Pin[]): Promise<void>;

  /** Puts several back, at most 64 and each once, as `unpin` does; returns those that were pinned. Where it throws, some may be back. */
  unpinAll?(namespace: string, workerIds: readonly number[]): Promise<readonly number[]>;

  /**
   * Deletes history rows whose window ended before `before`; the last row of a worker ID stays. Returns how many went. NOT_FOUND where the
   * namespace does not exist.
   */
  prune(namespace: string, before: number): Promise<number>;

  /**
   * Takes the registry's clock as it is, after a step ahead was refused with CLOCK_SKEW: an operator's word that it is right now.
   * Leaves a note. `by`: how far it is ahead of what was accepted before, ms. Absent where no such step is noticed.
   */
  acceptClock?(): Promise<{ readonly by: number }>;

  /** Reads all that is stored: REGISTRY_UNAVAILABLE where it is damaged. Absent where the store does that by itself. */
  verify?(): Promise<void>;

  /**
   * Writes what a claim writes, and takes it back: FORBIDDEN where this user may only read. Nothing of it is ever seen. Absent where
   * `ping` proves as much. @throws SnowleaseError SCHEMA_INCOMPATIBLE, NOT_FOUND without such a namespace.
   */
  rehearse?(namespace: string): Promise<void>;

  /**
   * One round trip that proves that the registry can be read and written, as far as can be told without a namespace: its clock, and
   * what it promises.
   */
  ping(): Promise<Pong>;

  /** Ends the connection. Claims stay as they are. Repeatable. */
  close(): Promise<void>;
}

/** Limits of a namespace, stored at its creation. */
export interface NamespaceLimits {
  /** Longest window that may be asked for, ms. Default 10 min. */
  readonly maxWindow: number;
  /** Largest difference between a holder's clock and the registry's that is tolerated, ms. Default 10 s. */
  readonly maxClockSkew: number;
}

/** How long claims stay in the history after the end of their window, ms; the last one of a worker ID stays for good. */
export const historyKept: number = 30 * 24 * 3_600_000;

/** Used where a namespace's own limits were not given. */
export const defaultLimits: NamespaceLimits = { maxWindow: 600_000, maxClockSkew: 10_000 };

/** What is fixed for a namespace. */
export interface NamespaceInfo extends NamespaceLimits {
  /** Fingerprint of the layout that the first claim brought. */
  readonly layout: string;
  /** Until when the namespace is in quarantine, Unix ms; absent where it is not. */
  readonly quarantineUntil?: number | undefined;
}

/** A namespace to create; limits that are left out are not checked against an existing one. */
export interface InitRequest extends Partial<NamespaceLimits> {
  readonly namespace: string;
  readonly layout: string;
  /** An operator's word that this namespace never existed: no worker ID of it was ever used. Default false. */
  readonly new?: boolean | undefined;
}

/** A label for people: it says where a holder runs, and safety between leases never rests on it. */
export interface HolderLabel {
  readonly host: string;
  /** Whose pins it may take over: `PinOwner`. */
  readonly ip: string;
  readonly pid: number;
  readonly instance: string;
}

/** What a claim asks for. */
export interface ClaimRequest {
  readonly namespace: string;
  /** 32 hex digits, random, made for this one claim; a claim that was given up is never asked again with its token. */
  readonly token: string;
  /** The one worker ID that will do; without it, any of the pool. */
  readonly workerId?: number | undefined;
  readonly pool: PoolBounds;
  /** Worker IDs to try first, most wanted first; at most 8 are looked at. */
  readonly preferred?: readonly number[] | undefined;
  readonly holder: HolderLabel;
  /** The holder's wall clock when it asked. */
  readonly clock: number;
  /** Length of the window, ms. */
  readonly window: number;
  /** Fingerprint of the layout. */
  readonly layout: string;
  /** `never`: only a number that nobody ever used. Default `any`. */
  readonly reuse?: "any" | "never" | undefined;
  /** Whether this holder can go on behind the recents of the one before. Default true. */
  readonly continues?: boolean | undefined;
  /**
   * How far the end of a window that was given back may lie ahead of this holder's clock, ms: what it can lead the clock by, with
   * room left in its own window. Default 0.
   */
  readonly lead?: number | undefined;
  /** Limits for a namespace that this claim creates. */
  readonly limits?: Partial<NamespaceLimits> | undefined;
}

/** The highest sequence of each tick in [from, until of the holder's window); a tick not listed was never used by anyone. */
export interface Recents {
  readonly from: number;
  /** As written by `RecentTicks`; opaque to a registry, at most 64 KiB. */
  readonly bytes: Uint8Array;
}

/**
 * Whose pinned worker ID it is: a host that uses the number without a lease. A claim whose holder has this address gets it before any
 * other (but for one that wants another number, or `reuse: "never"`), and the pin stays. Each such window begins `maxClockSkew` after
 * the registry's clock, and nothing is continued: the host may have used the number until a moment ago, and nobody was told.
 */
export interface PinOwner {
  /** IPv4 or IPv6, written as a holder's label has it. */
  readonly ip: string;
  /** No window begins before this, where the number is known to have been used up to then, Unix ms. Default 0. */
  readonly usedUntil?: number | undefined;
}

/** What `pin` is told of one worker ID. */
export interface Pin {
  readonly workerId: number;
  readonly reason: string;
  readonly owner?: PinOwner | undefined;
}

/** Worker IDs that are pinned or unpinned in one step, at most. */
export const mostPins = 64;

/** A claim that was granted. */
export interface Grant {
  readonly outcome: "granted";
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** The registry's clock when it decided. */
  readonly clock: number;
  /** Present: the holder may also use [recents.from, from), above what is listed. The right is this holder's alone. */
  readonly recents?: Recents | undefined;
  /** How far the claimer's clock is behind what this registry last saw of its host, ms. */
  readonly rollback?: number | undefined;
  /** Others have the same window: what may be used of it is what `takeBlocks` answers. */
  readonly shared?: boolean | undefined;
  /** The store that granted this, where a holder can tell it from another one by itself. Never leaves this machine. */
  readonly store?: GrantingStore | undefined;
}

/** The store that granted a window. */
export interface GrantingStore {
  /**
   * Whether another one stands in its place, in which nothing is known of what this one granted. Read for each ms in which IDs are made:
   * quick, and without an error.
   */
  readonly isReplaced: boolean;
}

/** A claim that cannot be granted now. `clock` is the registry's. */
export type Refusal =
  | {
      /** No worker ID of the pool is free; `freeAt`: when the first one may be, absent when none ever will. */
      readonly outcome: "exhausted";
      readonly pool: PoolBounds;
      readonly freeAt?: number | undefined;
      readonly clock: number;
    }
  | {
      /** The wanted worker ID is somebody's, or rests until its last window has passed. */
      readonly outcome: "held";
      readonly workerId: number;
      readonly live: boolean;
      readonly holder: HolderLabel;
      readonly since: number;
      readonly freeAt: number;
      readonly clock: number;
    }
  | {
      /** The wanted worker ID was used at times that the claimer's clock has yet to reach again. */
      readonly outcome: "rollback";
      readonly workerId: number;
      readonly behind: number;
      readonly freeAt: number;
      readonly clock: number;
    }
  | {
      /** The wanted worker ID is taken by a program that keeps no window: when it comes free nobody can tell. */
      readonly outcome: "foreign";
      readonly workerId: number;
      readonly holder: HolderLabel;
      readonly clock: number;
    }
  | { readonly outcome: "pinned"; readonly workerId: number; readonly reason: string; readonly clock: number };

/** How far a holder has come: the newest tick it used, and the highest sequence in it. */
export interface Checkpoint {
  readonly timestamp: number;
  readonly sequence: number;
}

/** Names a holder's claim, and proves that it is the holder's. */
export interface ClaimKey {
  readonly namespace: string;
  readonly workerId: number;
  readonly fence: number;
  readonly token: string;
}

/** Asks for more time. */
export interface RenewRequest extends ClaimKey {
  readonly clock: number;
  readonly window: number;
  readonly checkpoint?: Checkpoint | undefined;
}

/** The window as it stands after a renewal. `from` may have been raised by a quarantine. */
export interface Renewal {
  readonly outcome: "renewed";
  readonly from: number;
  readonly until: number;
  readonly clock: number;
}

/** Asks for blocks of consecutive spans; `Cut` says what they are in a layout. */
export interface BlocksRequest extends ClaimKey {
  /** The first span. */
  readonly first: number;
  readonly spans: number;
  /** How many blocks of each. */
  readonly blocks: number;
  /** How many the asker has of them already: one who has none goes first. */
  readonly held: number;
}

/** The blocks of each span that was asked for, as bits; 0 where there were none. */
export interface BlocksTaken {
  readonly outcome: "taken";
  readonly blocks: readonly number[];
}

/** The claim is over: somebody else has the worker ID, or an operator ended it. Nothing was changed. */
export interface Lost {
  readonly outcome: "lost";
}

/** Gives a worker ID back. */
export interface ReleaseRequest extends ClaimKey {
  readonly clock: number;
  /** What was handed out, emitted or not. Left out by a holder that does not know it: `until` then stays as it is. */
  readonly used?: Usage | undefined;
}

/** What a holder handed out. */
export interface Usage {
  /** max(from, end of the highest tick handed out): the window closes here. */
  readonly until: number;
  readonly checkpoint?: Checkpoint | undefined;
  /** Inherited and own recents, merged. Left out: nobody can continue behind this holder. */
  readonly recents?: Recents | undefined;
}

/** The worker ID is given back. */
export interface Released {
  readonly outcome: "released";
}

/** live: held. resting: nobody's, but its window has not passed. foreign: taken by a program that keeps no window. */
export type WorkerState = "live" | "resting" | "free" | "pinned" | "foreign";

/** What is stored about a worker ID, less its token. */
export interface WorkerRecord {
  readonly workerId: number;
  readonly state: WorkerState;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** The holder's clock at the last write. */
  readonly seenClock: number;
  /** Given back by a holder that said what it used. */
  readonly clean: boolean;
  readonly recents?: Recents | undefined;
  readonly checkpoint?: Checkpoint | undefined;
  /** The present or last holder; absent, like `claimedAt`, for a worker ID that was pinned before it was ever used. */
  readonly holder?: HolderLabel | undefined;
  readonly claimedAt?: number | undefined;
  readonly releasedAt?: number | undefined;
  /** The reason why it is kept out of the pool. */
  readonly pinned?: string | undefined;
  /** The address of the host that it is kept for. */
  readonly owner?: string | undefined;
  /** True where a free number looks taken to Java processes of westid: its `use` key, or its row, still stands. */
  readonly marked?: boolean | undefined;
}

/** Which worker IDs to list. */
export interface WorkersPage {
  readonly state?: WorkerState | undefined;
  /** Only worker IDs above this one. */
  readonly after?: number | undefined;
  /** Default 1000, at most 10000. */
  readonly limit?: number | undefined;
}

/** Rows whose window, continued part included, meets [from, until). */
export interface HistoryRange {
  readonly from?: number | undefined;
  readonly until?: number | undefined;
  /** The newest so many. Default 1000, at most 10000. */
  readonly limit?: number | undefined;
}

/** One claim in the history of a worker ID. */
export interface HistoryRow {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** Where the window began that was inherited from the holder before. */
  readonly continuedFrom?: number | undefined;
  readonly holder: HolderLabel;
  readonly claimedAt: number;
  readonly endedAt?: number | undefined;
  /** How it ended; absent while it goes on. `reset` is a forced release that reopened the window. */
  readonly end?: "released" | "forced" | "reset" | "taken-over" | undefined;
}

/** Ends a claim from outside. */
export interface ForceReleaseRequest {
  readonly namespace: string;
  readonly workerId: number;
  /** End it even while its window has not passed. */
  readonly force: boolean;
  /** The claim that is meant, so that a request which arrives late ends no other. Left out: whichever stands. */
  readonly fence?: number | undefined;
  /**
   * Also lower `until` to the registry's clock: only for an operator who knows that no holder is left. CONFIG_INVALID without
   * `fence`, since that is known of one claim.
   */
  readonly resetWindow?: boolean | undefined;
}

/** What became of a forced release. */
export type ForceReleased =
  | { readonly outcome: "released"; readonly until: number }
  | { readonly outcome: "live"; readonly holder: HolderLabel; readonly until: number }
  /** Another claim stands than the one that is meant: this holder's. Nothing was changed. */
  | { readonly outcome: "superseded"; readonly fence: number; readonly holder: HolderLabel; readonly until: number }
  | { readonly outcome: "absent" };

/** An answer to `ping`. */
export interface Pong {
  readonly clock: number;
  /** One sentence for people: what acknowledged writes survive here. */
  readonly promise: string;
  /** Version of what is stored; absent where there is none. */
  readonly schema?: number | undefined;
}
