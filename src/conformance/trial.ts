import { layouts } from "../id/layout.ts";
import { RecentTicks } from "../generator/recent-ticks.ts";
import type {
  ClaimKey,
  ClaimRequest,
  ForceReleased,
  ForceReleaseRequest,
  Grant,
  HistoryRange,
  HistoryRow,
  HolderLabel,
  InitRequest,
  Lost,
  PinOwner,
  Recents,
  Refusal,
  Released,
  ReleaseRequest,
  Renewal,
  RenewRequest,
  Registry,
  Usage,
  WorkerRecord,
  WorkersPage,
} from "../rule/registry.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import { ensure, equal, outcome } from "./assert.ts";
import type { ConformanceSubject, LateStore, LossyStore } from "./subject.ts";

/** A window that does not end while a check runs, ms. */
export const long = 60_000;
/** A window that a check waits for, ms. */
export const short = 60;
/** An hour, ms: more than any clock may be ahead. */
export const hour = 3_600_000;
/** Longest wait for the end of a window, ms, unless the subject says otherwise. */
const usualWait = 5000;

const { westid } = layouts;
/** The layout of every namespace made for a check. */
export const layout: string = westid.fingerprint;
/** A layout that no namespace has. */
export const otherLayout: string = layouts.twitter.fingerprint;

/** The label of a holder on this host. */
export function on(host: string): HolderLabel {
  return { host, ip: "192.0.2.1", pid: 4711, instance: "conformance" };
}

export function newToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** Recents from `from` on, as a holder writes them; `used` are the used ticks, ms after `from`. */
export function recentsFrom(from: number, ...used: number[]): Recents {
  const ticks = new RecentTicks(westid, from);
  for (const ms of used) ticks.raise(westid.tickOf(from + ms), ms);
  return ticks.handOver(from);
}

/** A granted claim. */
export interface GrantedClaim {
  readonly key: ClaimKey;
  readonly request: ClaimRequest;
  readonly grant: Grant;
}

/** The changes of a check to a correct request, and the client that sends it. */
type Changes<Request> = Partial<Request> & { readonly registry?: Registry };

/** One running check: clients of its store, and requests with defaults. */
export class Trial {
  readonly namespace: string;
  readonly registry: Registry;
  readonly #subject: ConformanceSubject;
  readonly #opened: Registry[];

  constructor(subject: ConformanceSubject, registry: Registry) {
    this.#subject = subject;
    this.namespace = subject.namespace;
    this.registry = registry;
    this.#opened = [registry];
  }

  /** Opens another client. */
  async another(): Promise<Registry> {
    const registry = await this.#subject.open();
    this.#opened.push(registry);
    return registry;
  }

  /** Returns the store with a client whose writes can be kept on their way. */
  async late(): Promise<LateStore> {
    const late = await this.#subject.late?.();
    ensure(late !== undefined, "a subject for checks of late writes to have `late`", late);
    this.#opened.push(late.registry);
    return late;
  }

  /** Returns the store with a client whose answers can be lost. */
  async lossy(): Promise<LossyStore> {
    const lossy = await this.#subject.lossy?.();
    ensure(lossy !== undefined, "a subject for checks of lost answers to have `lossy`", lossy);
    this.#opened.push(lossy.registry);
    return lossy;
  }

  /** Sends this many requests at the same time, by turns through two clients. */
  async concurrently<Answer>(
    count: number,
    send: (registry: Registry, i: number) => Promise<Answer>,
  ): Promise<Answer[]> {
    const clients = [this.registry, await this.another()];
    return Promise.all(Array.from({ length: count }, (_, i) => send(clients[i % 2] ?? this.registry, i)));
  }

  /** Creates a second namespace in the same store. */
  async otherNamespace(): Promise<string> {
    const namespace = `${this.namespace}_b`;
    await this.init({ namespace, new: true });
    return namespace;
  }

  /** Creates the namespace. If there are options, `new` is set only if they have it. */
  init(options: Partial<InitRequest> = { new: true }, registry: Registry = this.registry): Promise<NamespaceInfo> {
    return registry.init({ namespace: this.namespace, layout, ...options });
  }

  describe(registry: Registry = this.registry): Promise<NamespaceInfo | undefined> {
    return registry.describe(this.namespace);
  }

  async close(): Promise<void> {
    for (const registry of this.#opened) await registry.close();
  }

  now(): number {
    return this.#subject.now();
  }

  async pause(ms: number): Promise<void> {
    await this.#subject.pause(ms);
  }

  /** Waits until the holders' clock and the registry's clock have both reached a time. */
  async passed(until: number): Promise<void> {
    const { longestWait = usualWait } = this.#subject;
    let clock = this.now();
    // A sleep may end a little early, and the two clocks differ, so look again, but a limited number of times.
    for (let look = 0; look < 20; look++) {
      ({ clock } = await this.registry.ping());
      const remaining = until - Math.min(clock, this.now());
      if (remaining <= 0) return;
      ensure(remaining <= longestWait, `a window to end within ${longestWait} ms`, remaining);
      await this.pause(remaining);
    }
    ensure(false, `the registry's clock to reach ${until}`, clock);
  }

  request(options: Partial<ClaimRequest> = {}): ClaimRequest {
    return {
      namespace: this.namespace,
      token: newToken(),
      pool: { first: 0, last: 1023 },
      holder: on("alpha"),
      clock: this.now(),
      window: long,
      layout,
      ...options,
    };
  }

  /** Claims a worker ID; any answer is fine. */
  ask(options: Partial<ClaimRequest> = {}, registry: Registry = this.registry): Promise<Grant | Refusal | Lost> {
    return registry.claim(this.request(options));
  }

  /** Claims a worker ID. Returns undefined if the claim is refused. */
  async tryClaim(
    options: Partial<ClaimRequest>,
    registry: Registry = this.registry,
  ): Promise<GrantedClaim | undefined> {
    const request = this.request(options);
    const answer = await registry.claim(request);
    return answer.outcome === "granted" ? grantedClaim(request, answer) : undefined;
  }

  /** Claims a worker ID; the claim must be granted. */
  async claim(options: Partial<ClaimRequest> = {}, registry: Registry = this.registry): Promise<GrantedClaim> {
    const request = this.request(options);
    return grantedClaim(request, outcome(await registry.claim(request), "granted", "this claim"));
  }

  /** Claims a worker ID for a holder that crashes, and waits until its window has passed. */
  async crashed(options: Partial<ClaimRequest> = { workerId: 7 }): Promise<GrantedClaim> {
    const held = await this.claim({ window: short, ...options });
    await this.passed(held.grant.until);
    return held;
  }

  renew(
    { key }: GrantedClaim,
    { registry = this.registry, ...options }: Changes<RenewRequest> = {},
  ): Promise<Renewal | Lost> {
    return registry.renew({ ...key, clock: this.now(), window: long, ...options });
  }

  /** Renews a claim; the renewal must succeed. */
  async renewed(held: GrantedClaim, options: Changes<RenewRequest> = {}): Promise<Renewal> {
    return outcome(await this.renew(held, options), "renewed", "this renewal");
  }

  release(
    { key }: GrantedClaim,
    used?: Usage,
    { registry = this.registry, ...options }: Changes<ReleaseRequest> = {},
  ): Promise<Released | Lost> {
    return registry.release({ ...key, clock: this.now(), used, ...options });
  }

  /** Gives a worker ID back; the release must succeed. */
  async released(held: GrantedClaim, used?: Usage, options: Changes<ReleaseRequest> = {}): Promise<void> {
    outcome(await this.release(held, used, options), "released", "this release");
  }

  /** Releases a worker ID as an operator, by default by force. */
  force(workerId: number, options: Partial<ForceReleaseRequest> = {}): Promise<ForceReleased> {
    return this.registry.forceRelease({ namespace: this.namespace, workerId, force: true, ...options });
  }

  /** Claims a worker ID without a live holder; the claim must be refused until `until`. */
  async refusedUntil(until: number, options: Partial<ClaimRequest>, what: string): Promise<void> {
    const refusal = outcome(await this.ask(options), "held", what);
    equal([refusal.live, refusal.freeAt], [false, until], "whether it is live, and when it becomes free");
  }

  pin(workerId: number, reason: string = "kept", owner?: PinOwner): Promise<void> {
    return this.registry.pin(this.namespace, workerId, reason, owner);
  }

  unpin(workerId: number): Promise<boolean> {
    return this.registry.unpin(this.namespace, workerId);
  }

  records(page?: WorkersPage): Promise<readonly WorkerRecord[]> {
    return this.registry.workers(this.namespace, page);
  }

  history(workerId: number, range?: HistoryRange): Promise<readonly HistoryRow[]> {
    return this.registry.history(this.namespace, workerId, range);
  }

  /** The record of a worker ID, which must exist. */
  async record(workerId: number, registry: Registry = this.registry): Promise<WorkerRecord> {
    const record = await registry.worker(this.namespace, workerId);
    ensure(record !== undefined, `worker ${workerId} to be known`, record);
    return record;
  }

  /** Claims a worker ID for another host and gives it back, used up to `until` ms after the begin of its window. */
  async usedOnce(workerId: number, until: number, host: string): Promise<GrantedClaim> {
    const held = await this.claim({ workerId, holder: on(host) });
    await this.released(held, { until: held.grant.from + until });
    return held;
  }
}

function grantedClaim(request: ClaimRequest, grant: Grant): GrantedClaim {
  const { namespace, token } = request;
  const { workerId, fence } = grant;
  return { key: { namespace, workerId, fence, token }, request, grant };
}

/** Keys that differ from the holder's key in one part. Worker 8 must have another claim, worker 9 must have none. */
export function wrongKeys({ key }: GrantedClaim, namespace: string): Partial<ClaimKey>[] {
  const { fence } = key;
  return [
    { token: newToken() },
    { fence: fence + 1 },
    { fence: fence - 1 },
    { workerId: 8 },
    { workerId: 9 },
    { namespace },
  ];
}
