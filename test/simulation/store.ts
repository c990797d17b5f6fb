import type { Clock } from "../../src/lease/clock.ts";
import * as coreEras from "../../src/rule/era.ts";
import { SnowleaseError } from "../../src/id/errors.ts";
import { decideClaim } from "../../src/rule/pool.ts";
import {
  type ClaimRequest,
  type ForceReleased,
  type ForceReleaseRequest,
  type Grant,
  type Lost,
  type Refusal,
  type Registry,
  type Released,
  type ReleaseRequest,
  type Renewal,
  type RenewRequest,
} from "../../src/rule/registry.ts";
import { assumedLimits, checkSkew, checkWindow, defaultLimits, type NamespaceInfo } from "../../src/rule/limits.ts";
import { checkClaim, forced, forceRefusal, released, renewed, type Stored } from "../../src/rule/window.ts";
import { MemoryRecords } from "../../src/registries/memory/records.ts";
import type { Tally } from "./events.ts";
import type { Random } from "./world.ts";

/** As much of a registry as a lease asks for. */
export interface Leasing extends Pick<Registry, "claim" | "renew" | "release" | "forceRelease" | "takeBlocks"> {
  /** How long its quarantine still lasts, ms; 0 or nothing where there is none. */
  readonly quarantine?: number;
}

/** What a store does when it finds out that it may have forgotten something; the broken ones differ here. */
export interface Eras extends Readonly<typeof coreEras> {
  /** Whether it takes the server that asks for the one that wrote last. */
  readonly isSame: (writer: number, server: number) => boolean;
}

export const eras: Eras = { ...coreEras, isSame: (writer, server) => writer === server };

/** A record, and the era that it was written in. */
interface Kept {
  readonly record: Stored;
  readonly era: number;
}

/** All that a store holds, and so all that a copy of it can bring back. */
interface Holdings extends coreEras.Era {
  /** The server that wrote last; undefined in an empty store. */
  readonly writer?: number | undefined;
  readonly info?: NamespaceInfo | undefined;
  readonly kept: ReadonlyMap<number, Kept>;
}

const nothing: Holdings = { era: 0, quarantineEnd: 0, kept: new Map() };

/**
 * A store that may forget: the core's decisions on records in memory, and what every adapter of a server does around them that may
 * be restored or replaced.
 */
export class Store implements Leasing {
  readonly #clock: Clock;
  readonly #eras: Eras;
  readonly #tally: Tally;
  #server = 1;
  #holdings: Holdings = { ...nothing, writer: 1 };
  /** What it held before each of its writes. */
  readonly #copies: Holdings[] = [];

  constructor(clock: Clock, tally: Tally, rules: Eras = eras) {
    this.#clock = clock;
    this.#tally = tally;
    this.#eras = rules;
  }

  /** Another server takes its place, which has less: the same one after a crash, a replica that lagged, a backup. */
  forget(random: Random): void {
    const writes = this.#copies.length;
    const lost = random.pick(["last", "last", "older", "older", "all"] as const);
    if (lost === "all" || writes === 0) {
      this.#holdings = nothing;
      this.#tally.count("store that lost everything");
    } else {
      const missing = lost === "last" ? random.between(0, 3) : random.between(3, writes);
      this.#holdings = this.#copies[writes - missing] ?? (missing === 0 ? this.#holdings : nothing);
      const event = lost === "last" ? "store that lost its last writes" : "store restored from an older copy";
      this.#tally.count(event);
    }
    this.#server++;
  }

  get quarantine(): number {
    return Math.max(0, this.#holdings.quarantineEnd - this.#clock.now());
  }

  async claim(request: ClaimRequest): Promise<Grant | Refusal> {
    const clock = this.#clock.now();
    const now = this.#open(clock);
    this.#checkQuarantine(clock);
    const info = now.info ?? { ...defaultLimits, ...request.limits, layout: request.layout };
    checkClaim(request, clock, info);
    const records = new MemoryRecords();
    for (const { record, era } of now.kept.values()) {
      // The token of an older era names a window that may be forgotten here.
      const seen = this.#eras.recordIn(now, record, era);
      records.put(era === now.era ? seen : { ...seen, token: request.token === seen.token ? undefined : seen.token });
    }
    const { answer, store, before } = decideClaim(records, request, clock, info);
    if (answer.outcome !== "granted" || store === undefined) return answer;
    const record = this.#eras.claimIn(now, store, before);
    this.#write({ ...now, info }, record);
    const { fence, from, until } = record;
    return { ...answer, fence, from, until };
  }

  async renew(request: RenewRequest): Promise<Renewal | Lost> {
    const clock = this.#clock.now();
    const now = this.#open(clock);
    this.#checkQuarantine(clock);
    const kept = now.kept.get(request.workerId);
    if (kept === undefined || now.info === undefined) return { outcome: "lost" };
    checkWindow(request.window, now.info);
    checkSkew(request.clock, clock, now.info);
    const checkpoint = this.#eras.checkpointIn(now, request.checkpoint, kept.record);
    const after = renewed(kept.record, { ...request, checkpoint }, clock);
    if (after === undefined) return { outcome: "lost" };
    const record = this.#eras.renewalIn(now, after, kept.era);
    if (kept.era !== now.era) this.#tally.count("renewal through a quarantine");
    this.#write(now, record);
    return { outcome: "renewed", from: record.from, until: record.until, clock };
  }

  async release(request: ReleaseRequest): Promise<Released | Lost> {
    const clock = this.#clock.now();
    const now = this.#open(clock);
    const kept = now.kept.get(request.workerId);
    if (kept === undefined) return { outcome: "lost" };
    const used = this.#eras.usageIn(now, request.used, kept.record, kept.era);
    const after = released(kept.record, { ...request, used }, clock);
    if (after === undefined) return { outcome: "lost" };
    if (after !== kept.record) {
      if (kept.era !== now.era) this.#tally.count("give-back from an older era");
      this.#write(now, after);
    }
    return { outcome: "released" };
  }

  async forceRelease(request: ForceReleaseRequest): Promise<ForceReleased> {
    const clock = this.#clock.now();
    const now = this.#open(clock);
    const before = now.kept.get(request.workerId)?.record;
    const refusal = forceRefusal(before, request, clock);
    if (refusal !== undefined || before === undefined) return refusal ?? { outcome: "absent" };
    const after = forced(before, clock, false);
    this.#write(now, after);
    return { outcome: "released", until: after.until };
  }

  /** What it holds; where it may be less than there was, a new era begins. */
  #open(clock: number): Holdings {
    const { writer, info = assumedLimits } = this.#holdings;
    if (writer === undefined || !this.#eras.isSame(writer, this.#server)) {
      const era = this.#eras.nextEra(this.#holdings, clock, info);
      this.#keep({ ...this.#holdings, ...era, writer: this.#server });
    }
    return this.#holdings;
  }

  #checkQuarantine(clock: number): void {
    const retryAfterMs = this.#holdings.quarantineEnd - clock;
    if (retryAfterMs <= 0) return;
    this.#tally.count("refusal in quarantine");
    throw new SnowleaseError("QUARANTINE", "Windows may have been forgotten in this simulation.", { retryAfterMs });
  }

  #write(now: Holdings, record: Stored): void {
    this.#keep({ ...now, kept: new Map(now.kept).set(record.workerId, { record, era: now.era }) });
  }

  #keep(holdings: Holdings): void {
    this.#copies.push(this.#holdings);
    this.#holdings = holdings;
  }
}
