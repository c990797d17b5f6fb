import type { EraInfo, NamespaceInfo, NamespaceLimits } from "./limits.ts";
import type { PoolBounds } from "../id/pool-bounds.ts";

/*
 * The port that every store implements. `snowlease/conformance` checks each promise. All times are in Unix ms.
 *
 * A registry owns its connection, exposes no driver type and parses what it reads. Within its operation timeout it repeats requests that
 * certainly had no effect, and requests that have the same effect when they are repeated: claims, renewals, releases and pins. It throws a
 * SnowleaseError: REGISTRY_UNAVAILABLE if the operation may have taken effect, any other code if nothing was changed. Safety rests on three
 * promises: `until` is on durable storage before an answer contains it, only `release` by the holder lowers it, and a claim never opens a
 * window before it.
 */

/** Decides durably which holder may use a worker ID, and for which span of embedded time. */
export interface Registry {
  /** The kind of store: "sqlite", "redis", ... */
  readonly kind: string;

  /**
   * Creates a namespace, or checks an existing one. LAYOUT_MISMATCH for another layout. CONFIG_INVALID for other limits; with `new`, if a
   * worker ID of the namespace was used; without `separate`, if a namespace of this name exists elsewhere. Repeatable. A store that may
   * have forgotten the namespace creates it in quarantine, unless the request has `new`.
   */
  init(request: InitRequest): Promise<NamespaceInfo>;

  /** The layout and limits of a namespace; undefined if it does not exist. */
  describe(namespace: string): Promise<NamespaceInfo | undefined>;

  /**
   * One atomic step: picks a free worker ID, raises its fence, stores token and window. A claim that is repeated with its token gets the
   * same grant until the first renewal. After that, and after a quarantine, the answer is `lost`. Creates a missing namespace. Throws
   * CLOCK_SKEW, LAYOUT_MISMATCH, CONFIG_INVALID and QUARANTINE, which in an existing namespace comes before the other errors.
   */
  claim(request: ClaimRequest): Promise<Grant | Refusal | Lost>;

  /**
   * Compare-and-set on (worker ID, fence, token, not released): raises `until` and the checkpoint. This also works after `until`, if no
   * other holder has claimed the worker ID and it is the sender's turn. A receipt that proves that the registry forgot something begins a
   * quarantine. Throws CLOCK_SKEW, QUARANTINE, and CONFIG_INVALID for an impossible checkpoint or a `nextTurn` that equals `turn`.
   */
  renew(request: RenewRequest): Promise<Renewal | Lost>;

  /**
   * Ends the claim and stores the usage, in one step. A repeated release answers "released" and changes nothing. CONFIG_INVALID for a
   * `used.until` outside the window or before a checkpoint, or for recents that begin before `knownFrom`.
   */
  release(request: ReleaseRequest): Promise<Released | Lost>;

  /**
   * Takes blocks of a shared window (`Grant.shared`): sequences that only the asking process may use from then on. The blocks of a lost
   * answer stay unused. Present only if a holder lends its lease to other processes.
   */
  takeBlocks?(request: BlocksRequest): Promise<BlocksTaken | Lost>;

  /** Worker IDs that were used or are pinned, in ascending order, a page at a time. */
  workers(namespace: string, page?: WorkersPage): Promise<readonly WorkerRecord[]>;

  /** One worker ID; undefined when it was never used. */
  worker(namespace: string, workerId: number): Promise<WorkerRecord | undefined>;

  /** The claims of a worker ID, oldest first. The row of the present holder has its present window. */
  history(namespace: string, workerId: number, range?: HistoryRange): Promise<readonly HistoryRow[]>;

  /** Ends a claim for an operator. Its window stays closed, and no holder continues after it. */
  forceRelease(request: ForceReleaseRequest): Promise<ForceReleased>;

  /**
   * Takes a worker ID out of the pool, or reserves it for its owner. A present holder keeps it. A second pin replaces reason and owner.
   * NOT_FOUND for an unknown namespace. CONFIG_INVALID if the owner's `usedUntil` is too far ahead, WORKER_ID_HELD if it is after the begin
   * of a present holder's window.
   */
  pin(namespace: string, workerId: number, reason: string, owner?: PinOwner): Promise<void>;

  /** Puts a pinned worker ID back into the pool, and deletes its record if it was never claimed. False if it was not pinned. */
  unpin(namespace: string, workerId: number): Promise<boolean>;

  /**
   * Pins several worker IDs, at most 64 and each once. After an error, some may be pinned: repeat the call. Absent if the store cannot do
   * this faster than one by one.
   */
  pinAll?(namespace: string, pins: readonly Pin[]): Promise<void>;

  /** Unpins several worker IDs, at most 64 and each once. Returns the ones that were pinned. After an error, some may be unpinned. */
  unpinAll?(namespace: string, workerIds: readonly number[]): Promise<readonly number[]>;

  /**
   * Deletes history rows whose window ended before `before`, except the last one of each worker ID. Returns their number. NOT_FOUND
   * for an unknown namespace.
   */
  prune(namespace: string, before: number): Promise<number>;

  /**
   * Ends a quarantine after an operator confirmed that every forgotten window has passed. Grants and renewals go on. CONFIG_INVALID for
   * another era than the present one, and for a quarantine that covers a removed namespace; NOT_FOUND for an unknown namespace without a
   * noted quarantine. Changes nothing if no quarantine lasts. Absent if the store has no quarantines.
   */
  endQuarantine?(request: EndQuarantineRequest): Promise<EraInfo>;

  /**
   * Separates a copy of a store from its original, after an operator confirmed that the copy is for another use. The namespace gets its own
   * id and receipt key, in a new era that begins in quarantine. Records stay. CONFIG_INVALID for another era than the present one,
   * NOT_FOUND for an unknown namespace. Absent if an operator has to ask the store itself.
   */
  separate?(request: SeparateRequest): Promise<NamespaceInfo>;

  /**
   * Removes a namespace for an operator, with its records and its history. A note under its name stays: a later namespace of this name
   * begins in quarantine, after every window that this one granted. Present holders learn that their leases are over. After an error, the
   * namespace may grant nothing any more: repeat the call. CONFIG_INVALID for another era, NOT_FOUND for an unknown namespace. Absent if
   * the registry cannot do this.
   */
  remove?(request: RemoveRequest): Promise<void>;

  /**
   * The key with which a daemon signs receipts; undefined for an unknown namespace. No API shows it. Absent if the registry's receipts are
   * signed already, or if it has no receipts.
   */
  receiptKey?(namespace: string): Promise<string | undefined>;

  /**
   * Accepts the registry's clock for an operator, after CLOCK_SKEW refused a step ahead. Stores a note. `by`: how far the clock is from the
   * last accepted one, ms. Absent if the store does not detect such steps.
   */
  acceptClock?(): Promise<{ readonly by: number }>;

  /** Reads the whole store. REGISTRY_UNAVAILABLE if it is damaged. Absent if the store checks itself. */
  verify?(): Promise<void>;

  /**
   * Writes what a claim writes, and rolls it back: other clients do not see it. FORBIDDEN if this user may only read. Absent if `ping`
   * proves the same. @throws SnowleaseError SCHEMA_INCOMPATIBLE, NOT_FOUND for an unknown namespace.
   */
  rehearse?(namespace: string): Promise<void>;

  /** One round trip that tests reading, and also writing if that is possible without a namespace. */
  ping(): Promise<Pong>;

  /**
   * The programs among which the worker IDs of a namespace are unique, as a phrase: "all who use schema public of database app on
   * PostgreSQL db1:5432". Also for a namespace that does not exist yet. One URL may lead two programs to two registries, because of user,
   * working folder or home. The two phrases then differ. Absent if the registry does not know.
   */
  scope?(namespace: string): Promise<string>;

  /**
   * The other places in which the same login sees namespaces of this name, as phrases such as "schema app". Programs that use those get the
   * same worker IDs. Absent if the registry cannot look.
   */
  elsewhere?(namespace: string): Promise<readonly string[]>;

  /** Closes the connection. Claims stay as they are. Repeatable. */
  close(): Promise<void>;
}

/** A namespace to create. `init` compares only the limits that are given with those of an existing namespace. */
export interface InitRequest extends Partial<NamespaceLimits> {
  readonly namespace: string;
  readonly layout: string;
  /** An operator confirms that this namespace is new: no worker ID of it was ever used. Default false. */
  readonly new?: boolean | undefined;
  /** An operator confirms that the IDs of this namespace never meet those of a namespace in `Registry.elsewhere`. Default false. */
  readonly separate?: boolean | undefined;
}

/** An operator's request to end a quarantine. */
export interface EndQuarantineRequest {
  readonly namespace: string;
  /** `NamespaceInfo.era`, so that a late request ends no later quarantine. */
  readonly era: string;
}

/** An operator's request to separate a copy from its original. */
export interface SeparateRequest {
  readonly namespace: string;
  /** `NamespaceInfo.era`, so that a repeated request does not separate the copy again. */
  readonly era: string;
}

/** An operator's request to remove a namespace. */
export interface RemoveRequest {
  readonly namespace: string;
  /** `NamespaceInfo.era`, so that a late request removes no later namespace of this name. */
  readonly era: string;
  /** An operator confirms that no namespace of this name is ever made again: no note stays. Default false. */
  readonly forget?: boolean | undefined;
}

/** Describes to people where a holder runs. Safety between leases does not depend on it. */
export interface HolderLabel {
  readonly host: string;
  /** The holder may take worker IDs that are pinned for this address: `PinOwner`. */
  readonly ip: string;
  readonly pid: number;
  readonly instance: string;
}

/** A claim. */
export interface ClaimRequest {
  readonly namespace: string;
  /** 32 random hex digits, new for each claim. A claim that was given up is not repeated with its token. */
  readonly token: string;
  /** The only worker ID that is accepted. Default: any of the pool. */
  readonly workerId?: number | undefined;
  readonly pool: PoolBounds;
  /** Worker IDs to try first, in this order; the registry looks at the first 8. */
  readonly preferred?: readonly number[] | undefined;
  readonly holder: HolderLabel;
  /** The holder's wall clock when it sent the request. */
  readonly clock: number;
  /** Length of the window, ms. */
  readonly window: number;
  /** Fingerprint of the layout. */
  readonly layout: string;
  /** `never`: only a worker ID that was never used. Default `any`. */
  readonly reuse?: "any" | "never" | undefined;
  /** Whether this holder can continue after the recents of the holder before. Default true. */
  readonly continues?: boolean | undefined;
  /** How far ahead of this holder's clock a released window may end, ms: the holder can lead the clock by as much. Default 0. */
  readonly lead?: number | undefined;
  /** Limits for a namespace that this claim creates. */
  readonly limits?: Partial<NamespaceLimits> | undefined;
  /** Asks for a share of a lent lease. A registry that lends no lease grants a worker ID as usual. Default false. */
  readonly shared?: boolean | undefined;
  /** The newest receipt of a lease that the claimer did not give back: the registry may have forgotten that lease. */
  readonly recall?: string | undefined;
}

/** A window [from, until) that was granted for one worker ID, and the fence of the claim. */
export interface ClaimedWindow {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
}

/** The highest sequence of each tick in [from, until of the holder's window). A tick that is not listed was never used. */
export interface Recents {
  readonly from: number;
  /** As written by `RecentTicks`; opaque to a registry, at most 64 KiB. */
  readonly bytes: Uint8Array;
}

/**
 * The owner of a pinned worker ID: a host that uses it without a lease. A claim from this address gets it first, unless the claim names a
 * worker ID or has `reuse: "never"`. The pin stays. The window of such a claim begins `maxClockSkew` after the registry's clock, and
 * continues no earlier window: the host may have used the worker ID until a moment ago.
 */
export interface PinOwner {
  /** IPv4 or IPv6, as written in a holder's label. */
  readonly ip: string;
  /** Until when the owner used the worker ID, Unix ms: no window begins earlier. Default 0. */
  readonly usedUntil?: number | undefined;
}

/** One worker ID to pin. */
export interface Pin {
  readonly workerId: number;
  readonly reason: string;
  readonly owner?: PinOwner | undefined;
}

/** The most worker IDs that `pinAll` and `unpinAll` take. */
export const mostPins = 64;

/** A claim that was granted. */
export interface Grant extends ClaimedWindow {
  readonly outcome: "granted";
  /** The registry's clock when it decided. */
  readonly clock: number;
  /** If present, this holder alone may also use [recents.from, from), above the listed sequences. */
  readonly recents?: Recents | undefined;
  /** How far the holder's clock is behind the last clock that this registry saw of its host, ms. */
  readonly rollback?: number | undefined;
  /** The window is shared: the holder may use only blocks that it got from `takeBlocks`. */
  readonly shared?: boolean | undefined;
  /** The store that granted this, if a holder can detect its replacement. Never leaves this machine. */
  readonly store?: GrantingStore | undefined;
  /** Opaque to the holder. The holder sends the newest receipt with its next request. The receipt proves what the registry stored. */
  readonly receipt?: string | undefined;
}

/** The store that granted a window. */
export interface GrantingStore {
  /**
   * Whether another store, which knows none of its grants, has replaced it. Generators read this in each ms in which they make IDs, so it
   * has to be fast. Never throws.
   */
  readonly isReplaced: boolean;
}

/** A claim that cannot be granted now. `clock` is the registry's. */
export type Refusal = { readonly clock: number } &
  /** No worker ID of the pool is free. `freeAt`: when the first may become free; absent if none will. */
  (
    | { readonly outcome: "exhausted"; readonly pool: PoolBounds; readonly freeAt?: number | undefined }
    /** Another holder has the wanted worker ID, or it rests until its last window has passed. */
    | {
        readonly outcome: "held";
        readonly workerId: number;
        readonly live: boolean;
        readonly holder: HolderLabel;
        readonly since: number;
        readonly freeAt: number;
        /** The holder runs as the user `uid`, and has the worker ID from another registry file of this host than `file`. */
        readonly elsewhere?: { readonly uid: number; readonly file: string } | undefined;
      }
    /** The wanted worker ID was used at times after the holder's clock: that clock was set back. */
    | { readonly outcome: "rollback"; readonly workerId: number; readonly behind: number; readonly freeAt: number }
    /** A program without a window uses the wanted worker ID: nothing says when it comes free. */
    | { readonly outcome: "foreign"; readonly workerId: number; readonly holder: HolderLabel }
    | { readonly outcome: "pinned"; readonly workerId: number; readonly reason: string }
  );

/** A holder's progress: the newest tick that it used, and the highest sequence in it. */
export interface Checkpoint {
  readonly timestamp: number;
  readonly sequence: number;
}

/** Names a claim, and proves that the sender holds it. */
export interface ClaimKey {
  readonly namespace: string;
  readonly workerId: number;
  readonly fence: number;
  readonly token: string;
}

/** The turns that a holder sends. A holder that sends none cannot change a record that has a turn. */
export interface Turns {
  /** The turn that the registry acknowledged last; absent before the first renewal. */
  readonly turn?: string | undefined;
  /** 32 random hex digits, other than `turn`: the turn after this renewal. The same until the renewal is answered. */
  readonly nextTurn?: string | undefined;
  /** Turns that were sent since the acknowledged one, at most 8: an answer to one of them may have been lost. */
  readonly sentTurns?: readonly string[] | undefined;
}

/** Extends a window. */
export interface RenewRequest extends ClaimKey, Turns {
  /** Of the last answer to this claim. */
  readonly receipt?: string | undefined;
  readonly clock: number;
  readonly window: number;
  readonly checkpoint?: Checkpoint | undefined;
}

/** The window after a renewal. A quarantine may have raised `from`. */
export interface Renewal {
  readonly outcome: "renewed";
  readonly from: number;
  readonly until: number;
  readonly clock: number;
  /** The stored turn: the holder's next renewal names it. Absent if the registry has no turns. */
  readonly turn?: string | undefined;
  /** As in a grant. */
  readonly receipt?: string | undefined;
}

/** Requests blocks of consecutive spans; `BlockLayout` defines spans and blocks of a layout. */
export interface BlocksRequest extends ClaimKey, Turns {
  /** The first span. */
  readonly first: number;
  readonly spans: number;
  /** How many blocks of each span. */
  readonly blocks: number;
  /** How many blocks of each span the process has already. Processes without blocks go first. */
  readonly held: number;
}

/** The blocks of each requested span, as bits; 0 if none were left. */
export interface BlocksTaken {
  readonly outcome: "taken";
  readonly blocks: readonly number[];
}

/** The claim is over. */
export interface Lost {
  readonly outcome: "lost";
  /** Default `taken`. */
  readonly reason?: LossReason | undefined;
  /** Other claims may have used these times, too, Unix ms. Absent if the registry knows of no such claims. */
  readonly doubt?: { readonly from: number; readonly until: number } | undefined;
}

/**
 * taken: another holder has the worker ID. released: it was given back, or an operator ended the claim. forgotten: the registry went back
 * in time and does not know the claim any more. cloned: a copy of the holder has renewed the lease.
 */
export type LossReason = (typeof lossReasons)[number];

/** Each reason. */
export const lossReasons = ["taken", "released", "forgotten", "cloned"] as const;

/** Gives a worker ID back. */
export interface ReleaseRequest extends ClaimKey, Turns {
  readonly clock: number;
  /** Of the last answer to this claim. */
  readonly receipt?: string | undefined;
  /** What the holder handed out, even if no ID was made of it. Left out if the holder does not know it: `until` then stays. */
  readonly used?: Usage | undefined;
}

/** What a holder handed out. */
export interface Usage {
  /** max(from, end of the highest tick handed out): the window closes here. */
  readonly until: number;
  readonly checkpoint?: Checkpoint | undefined;
  /** Inherited and own recents, merged. Left out: no holder can continue after this one. */
  readonly recents?: Recents | undefined;
}

/** The worker ID was released. */
export interface Released {
  readonly outcome: "released";
}

/** live: held. resting: not held, and its window has not passed. foreign: used by a program without a window. */
export type WorkerState = "live" | "resting" | "free" | "pinned" | "foreign";

/** The stored record of a worker ID, without its token. */
export interface WorkerRecord extends ClaimedWindow {
  readonly state: WorkerState;
  /** The holder's clock at the last write. */
  readonly seenClock: number;
  /** Released by a holder that reported what it used. */
  readonly clean: boolean;
  readonly recents?: Recents | undefined;
  readonly checkpoint?: Checkpoint | undefined;
  /** The present or last holder; absent, like `claimedAt`, if the worker ID was pinned and never used. */
  readonly holder?: HolderLabel | undefined;
  readonly claimedAt?: number | undefined;
  readonly releasedAt?: number | undefined;
  /** The reason of its pin. */
  readonly pinned?: string | undefined;
  /** The address of the host for which it is pinned. */
  readonly owner?: string | undefined;
  /** True if a free worker ID looks taken to Java processes of westid: its `use` key or row still exists. */
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

/** Selects rows whose window, with its continued part, meets [from, until). */
export interface HistoryRange {
  readonly from?: number | undefined;
  readonly until?: number | undefined;
  /** Only the newest rows. Default 1000, at most 10000. */
  readonly limit?: number | undefined;
}

/** One claim in the history of a worker ID. */
export interface HistoryRow extends ClaimedWindow {
  /** The begin of the part that the holder continued, or used before a quarantine. */
  readonly continuedFrom?: number | undefined;
  readonly holder: HolderLabel;
  readonly claimedAt: number;
  readonly endedAt?: number | undefined;
  /** How it ended; absent while it lasts. `reset`: a forced release that reopened the window. */
  readonly end?: "released" | "forced" | "reset" | "taken-over" | undefined;
}

/** An operator's request to end a claim. */
export interface ForceReleaseRequest {
  readonly namespace: string;
  readonly workerId: number;
  /** Ends the claim even if its window has not passed. */
  readonly force: boolean;
  /** The claim to end, so that a late request ends no other claim. Default: the present claim. */
  readonly fence?: number | undefined;
  /**
   * Also lowers `until` to the registry's clock. Use it only if this claim's holder has certainly ended. CONFIG_INVALID without `fence`.
   */
  readonly resetWindow?: boolean | undefined;
}

/** The result of a forced release. */
export type ForceReleased =
  | { readonly outcome: "released"; readonly until: number }
  | { readonly outcome: "live"; readonly holder: HolderLabel; readonly until: number }
  /** This holder has a newer claim. Nothing was changed. */
  | { readonly outcome: "superseded"; readonly fence: number; readonly holder: HolderLabel; readonly until: number }
  | { readonly outcome: "absent" };

/** What acknowledged writes survive. */
export interface Durability {
  /** One sentence for people. */
  readonly durability: string;
  /** With the server's settings, they may be lost with its process or its machine: operators should know. Absent: they survive both. */
  readonly lossy?: boolean | undefined;
}

/** An answer to `ping`. */
export interface Pong extends Durability {
  readonly clock: number;
  /** Version of the stored schema; absent if there is none. */
  readonly schema?: number | undefined;
  /** Of a daemon: the kind of the store behind it. */
  readonly behind?: string | undefined;
  /** The server does not check the password that it gets: any other works, too. */
  readonly unguarded?: boolean | undefined;
}
