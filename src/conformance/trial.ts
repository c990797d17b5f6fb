import { layouts } from "../id/layout.ts";
import { RecentTicks } from "../generator/recent.ts";
import type {
  Checkpoint,
  ClaimKey,
  ClaimRequest,
  Grant,
  HolderLabel,
  Lost,
  NamespaceInfo,
  NamespaceLimits,
  Recents,
  Refusal,
  Released,
  Renewal,
  Registry,
  Usage,
  WorkerRecord,
} from "../rule/registry.ts";
import { ensure, outcome } from "./assert.ts";
import type { ConformanceSubject } from "./subject.ts";

/** A window that does not end while a check runs, ms. */
export const long = 60_000;
/** A window that a check waits out, ms. */
export const short = 60;
/** How far before a window's end a check may be when it waits for it, ms: a wait of minutes would be a mistake. */
const longestWait = 5000;

const { westid } = layouts;
/** The layout of every namespace that a check finds. */
export const layout: string = westid.fingerprint;

/** A holder that runs on this host. */
export function on(host: string): HolderLabel {
  return { host, ip: "192.0.2.1", pid: 4711, instance: "conformance" };
}

/** A token as a holder makes it. */
export function newToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** Recents that begin there, as a holder writes them: it used these ticks, so many ms behind the begin. */
export function recentsFrom(from: number, ...used: number[]): Recents {
  const ticks = new RecentTicks(westid, from);
  for (const ms of used) ticks.raise(westid.tickOf(from + ms), ms);
  return ticks.handOver(from);
}

/** A claim that was granted: what proves it, what was asked, what was answered. */
export interface GrantedClaim {
  readonly key: ClaimKey;
  readonly request: ClaimRequest;
  readonly grant: Grant;
}

/** What a check may change of a renewal or release; by default the holder asks what is right. */
interface KeyedOptions extends Partial<ClaimKey> {
  readonly clock?: number;
  readonly registry?: Registry;
}

/** One check at work: clients of its store, and requests that need only say what matters. */
export class Trial {
  readonly namespace: string;
  /** The first client. */
  readonly registry: Registry;
  readonly #subject: ConformanceSubject;
  readonly #opened: Registry[];

  constructor(subject: ConformanceSubject, registry: Registry) {
    this.#subject = subject;
    this.namespace = subject.namespace;
    this.registry = registry;
    this.#opened = [registry];
  }

  /** Another client of the same store. */
  async another(): Promise<Registry> {
    const registry = await this.#subject.open();
    this.#opened.push(registry);
    return registry;
  }

  /** A second namespace of the same store, created. */
  async otherNamespace(): Promise<string> {
    const namespace = `${this.namespace}_b`;
    await this.registry.init({ namespace, layout, new: true });
    return namespace;
  }

  init(limits: Partial<NamespaceLimits>): Promise<NamespaceInfo> {
    return this.registry.init({ namespace: this.namespace, layout, ...limits, new: true });
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

  /** Waits until the holders' clock and the registry's have both reached a time. */
  async passed(until: number): Promise<void> {
    let clock = this.now();
    // A sleep may end a little early, and two clocks differ: a few more looks, not for ever.
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

  /** Asks for a worker ID and takes any answer. */
  ask(options: Partial<ClaimRequest> = {}, registry: Registry = this.registry): Promise<Grant | Refusal> {
    return registry.claim(this.request(options));
  }

  /** Asks for a worker ID that has to be granted. */
  async claim(options: Partial<ClaimRequest> = {}, registry: Registry = this.registry): Promise<GrantedClaim> {
    const request = this.request(options);
    const answer = await registry.claim(request);
    outcome(answer, "granted", "this claim");
    return grantedClaim(request, answer);
  }

  renew(
    { key }: GrantedClaim,
    { registry = this.registry, ...options }: KeyedOptions & { window?: number; checkpoint?: Checkpoint } = {},
  ): Promise<Renewal | Lost> {
    return registry.renew({ ...key, clock: this.now(), window: long, ...options });
  }

  /** Renews a claim that has to go on. */
  async renewed(held: GrantedClaim, options: Parameters<Trial["renew"]>[1] = {}): Promise<Renewal> {
    const answer = await this.renew(held, options);
    outcome(answer, "renewed", "this renewal");
    return answer;
  }

  release(
    { key }: GrantedClaim,
    used?: Usage,
    { registry = this.registry, ...options }: KeyedOptions = {},
  ): Promise<Released | Lost> {
    return registry.release({ ...key, clock: this.now(), used, ...options });
  }

  /** Gives back a worker ID that has to be taken back. */
  async released(held: GrantedClaim, used?: Usage, options: KeyedOptions = {}): Promise<void> {
    outcome(await this.release(held, used, options), "released", "this release");
  }

  /** What is stored about a worker ID that was used. */
  async record(workerId: number, registry: Registry = this.registry): Promise<WorkerRecord> {
    const record = await registry.worker(this.namespace, workerId);
    ensure(record !== undefined, `worker ${workerId} to be known`, record);
    return record;
  }

  /** Lets another holder claim a worker ID and give it back, used up to `until` ms behind the begin of its window. */
  async usedOnce(workerId: number, until: number, host: string): Promise<GrantedClaim> {
    const held = await this.claim({ workerId, holder: on(host) });
    await this.released(held, { until: held.grant.from + until });
    return held;
  }
}

/** The claim that this grant makes. */
export function grantedClaim(request: ClaimRequest, grant: Grant): GrantedClaim {
  const { namespace, token } = request;
  const { workerId, fence } = grant;
  return { key: { namespace, workerId, fence, token }, request, grant };
}
