import { isSnowleaseError } from "../src/id/errors.ts";
import type { NamespaceState } from "../src/rule/era.ts";
import { checkSkew, checkWindow, type NamespaceInfo } from "../src/rule/limits.ts";
import { decideClaim, type PoolView } from "../src/rule/pool.ts";
import { readReceipt, type Receipt } from "../src/rule/receipt.ts";
import type {
  ClaimRequest,
  ForceReleased,
  ForceReleaseRequest,
  Grant,
  Lost,
  Refusal,
  Released,
  ReleaseRequest,
  Renewal,
  RenewRequest,
} from "../src/rule/registry.ts";
import { storedToken } from "../src/rule/token.ts";
import { decideRelease, decideRenewal } from "../src/rule/verdict.ts";
import { forced, forceRefusal, type Stored } from "../src/rule/window.ts";
import type { Operation } from "./linearizability.ts";

/** What was asked of a registry and what it answered; without an answer it may have been done, and also later than that. */
export type Asked =
  | { readonly method: "claim"; readonly request: ClaimRequest; readonly answer?: Grant | Refusal | Lost | undefined }
  | { readonly method: "renew"; readonly request: RenewRequest; readonly answer?: Renewal | Lost | undefined }
  | { readonly method: "release"; readonly request: ReleaseRequest; readonly answer?: Released | Lost | undefined }
  | {
      readonly method: "forceRelease";
      readonly request: ForceReleaseRequest;
      readonly answer?: ForceReleased | undefined;
    };

/** A call of a registry, as its caller saw it. */
export type Call = Asked & {
  /** Who called, for people. */
  readonly caller: string;
  /** When it was called and when it was answered, in any unit that all calls have. Infinity: it was never answered. */
  readonly asked: number;
  readonly answered: number;
  /** By how much the caller's clock may have gone on until the registry decided, ms: the registry adds what it sees of that. */
  readonly waited: number;
  /** Until when it may have been done once more than its answer tells: the registry or the network may have sent it again. */
  readonly repeated?: "until its answer" | "ever" | undefined;
};

/** One worker ID of the registry that does each call in one step. */
export interface RuleState {
  readonly record: Stored | undefined;
  readonly era: string;
}

/** The clocks at which a call is decided, Unix ms. */
interface Clocks {
  readonly holder: number;
  readonly registry: number;
}

/** The registry's clock where a call has no answer, Unix ms. */
interface Bounds {
  readonly earliest: number;
  readonly latest: number;
  /** Those that something else shows. */
  readonly shown: readonly number[];
}

type Effect<Method> = Extract<Asked, { readonly method: Method }>;

/**
 * The registry as it is promised: the rule (`src/rule`), run in one step a call, one worker ID by itself. What the rule is given from
 * outside is read from the answers. The clocks: the registry's is any that the answer explains, within `maxClockSkew` of the holder's; the
 * holder's is the one that it sent, or up to `waited` later. The eras: those of the receipts, in their order.
 */
export class SequentialRegistry {
  readonly #calls: readonly Call[];
  readonly #info: NamespaceInfo;
  /** When each era that a holder was told of began to grant, the earliest era first. */
  readonly #eras: ReadonlyMap<string, number>;

  constructor(calls: readonly Call[]) {
    this.#calls = calls;
    const [receipt] = calls.flatMap((call) => receiptOf(call) ?? []);
    const { maxWindow, maxClockSkew } = receipt ?? { maxWindow: Infinity, maxClockSkew: Infinity };
    this.#info = { id: receipt?.namespaceId, maxWindow, maxClockSkew, layout: "" };
    this.#eras = openings(calls);
  }

  /** The worker IDs that were granted. */
  get workerIds(): readonly number[] {
    const granted = this.#calls.flatMap((call) => grantIn(call)?.workerId ?? []);
    return [...new Set(granted)].toSorted((a, b) => a - b);
  }

  get begin(): RuleState {
    const [era = "0-0"] = this.#eras.keys();
    return { record: undefined, era };
  }

  /**
   * The calls that this worker ID explains. A claim that was refused is none of them: that depends on the whole pool at one moment. One
   * without an answer may have been granted any worker ID.
   */
  operationsOn(workerId: number): readonly (Operation<RuleState> & { readonly call: Call })[] {
    const own = this.#calls.filter((call) => (grantIn(call)?.workerId ?? idIn(call)) === workerId);
    const worker = new Worker(workerId, own, this.#info, this.#eras);
    return this.#calls.flatMap((call) => {
      const { asked, answered, answer, repeated } = call;
      const isOwn = own.includes(call);
      if (!isOwn && call.method !== "claim") return [];
      const times = (answer === undefined ? 1 : 0) + (repeated === undefined ? 0 : 1);
      const atMost = worker.isAnonymous(call) ? Infinity : times;
      const needed = { call, asked, answered, next: (state: RuleState) => worker.told(state, call) };
      const before = isOwn && answer !== undefined && repeated === "until its answer" ? needed : undefined;
      const next = (state: RuleState): readonly RuleState[] => worker.untold(state, call);
      const untold = { call, asked, answered: Infinity, atMost, before, next };
      return [...(isOwn && answer !== undefined ? [needed] : []), ...(times === 0 ? [] : [untold])];
    });
  }
}

/** Equal for states that no call tells apart. */
export function keyOf({ record, era }: RuleState): string {
  if (record === undefined) return era;
  const { fence, token, from, until, clean, knownFrom, recents, checkpoint, renewals, turn, era: written } = record;
  return JSON.stringify([
    era,
    fence,
    token,
    from,
    until,
    clean,
    knownFrom,
    recents,
    checkpoint,
    renewals,
    turn,
    written,
  ]);
}

/** A worker ID, and what holders were told of it. */
class Worker {
  readonly #workerId: number;
  readonly #info: NamespaceInfo;
  readonly #eras: ReadonlyMap<string, number>;
  /** The token to which each fence was granted, and all of these. */
  readonly #tokens = new Map<number, string>();
  readonly #known = new Set<string>();
  #highest = 0;
  /** The turn and the end of the window after each renewal whose receipt was told, by fence and number. */
  readonly #renewals = new Map<string, Pick<Stored, "turn" | "until">>();
  /** Where windows begin and end, Unix ms, and when that was told. */
  readonly #times = new Map<number, number>();
  readonly #bounds = new Map<Call, Bounds>();

  constructor(workerId: number, calls: readonly Call[], info: NamespaceInfo, eras: ReadonlyMap<string, number>) {
    this.#workerId = workerId;
    this.#info = info;
    this.#eras = eras;
    for (const call of calls) {
      const window = grantIn(call) ?? renewalIn(call);
      const end = call.method === "forceRelease" && call.answer?.outcome === "released" ? [call.answer.until] : [];
      for (const time of window === undefined ? end : [window.from, window.until]) {
        this.#times.set(time, Math.max(this.#times.get(time) ?? 0, call.answered));
      }
      if (window === undefined) continue;
      const { fence, renewals } = receiptOf(call) ?? {};
      const turn = window.outcome === "renewed" ? window.turn : undefined;
      if (fence !== undefined) this.#renewals.set(`${fence} ${renewals}`, { turn, until: window.until });
      if (call.method === "claim" && window?.outcome === "granted") {
        const token = storedToken(call.request.token);
        this.#tokens.set(window.fence, token);
        this.#known.add(token);
        this.#highest = Math.max(this.#highest, window.fence);
      }
    }
  }

  /** Whether this is a claim of whose token no holder was told anything: which of them it was makes no difference. */
  isAnonymous({ method, request }: Call): boolean {
    return method === "claim" && !this.#known.has(sentOf(request).token);
  }

  /** After a call that was answered so. */
  told(state: RuleState, call: Call): readonly RuleState[] {
    return this.#distinct(this.#inEras(state, call).flatMap((begun) => this.#answered(begun, call)));
  }

  /** After a call whose answer is not known, where it changes anything. */
  untold(state: RuleState, call: Call): readonly RuleState[] {
    const after = this.#erasUntold(state, call).flatMap((begun) => this.#unanswered(begun, call));
    const changed = after.filter(
      ({ record }) => record !== state.record && keyOf({ ...state, record }) !== keyOf(state),
    );
    return this.#distinct(changed);
  }

  #answered(state: RuleState, call: Call): readonly RuleState[] {
    const { method, answer, waited } = call;
    if (method === "claim") {
      if (answer?.outcome !== "granted") return [];
      const { from, until, clock } = answer;
      const { window } = call.request;
      const registry = [clock, from + this.#info.maxClockSkew, until - window];
      return this.#clocks(call.request.clock, waited, registry, [until - window]).flatMap((clocks) => {
        const after = this.#claim(state, call, clocks);
        return after !== undefined && isSameGrant(after.answer, answer) ? [after.state] : [];
      });
    }
    if (method === "renew" && answer?.outcome === "renewed") {
      const { until, clock } = answer;
      const { window } = call.request;
      return this.#clocks(call.request.clock, waited, [clock, until - window], [until - window]).flatMap((clocks) => {
        const after = this.#renew(state, call, clocks);
        return after !== undefined && isSameRenewal(after.answer, answer) ? [after.state] : [];
      });
    }
    const after = this.#decideAt(state, call, call.method === "forceRelease" ? 0 : call.request.clock);
    if (after === undefined) return [];
    return textOf(after.answer) === textOf(answer) ? [after.state] : [];
  }

  #unanswered(state: RuleState, call: Call): readonly RuleState[] {
    if (call.method === "forceRelease") {
      const after = this.#decideAt(state, call, 0);
      return after === undefined ? [] : [after.state];
    }
    const { clock } = call.request;
    if (call.method === "release") {
      const after = this.#decideAt(state, call, clock);
      return after === undefined ? [] : [after.state];
    }
    if (call.method === "claim") {
      const { token } = sentOf(call.request);
      if (this.#isGranted(state, token) || isHeldUntil(clock + call.waited, state, token)) return [];
    }
    const { earliest, latest, shown } = this.#boundsOf(call);
    const { until = 0 } = state.record ?? {};
    const clocks = until > clock && until >= earliest && until <= latest ? [...shown, until] : shown;
    return [...new Set(clocks)].flatMap((registry) => {
      const clocks = { holder: Math.min(Math.max(registry, clock), clock + call.waited), registry };
      const after = call.method === "renew" ? this.#renew(state, call, clocks) : this.#claim(state, call, clocks);
      if (after?.state.record === undefined || !this.#isPossible(after.state.record)) return [];
      if (!this.isAnonymous(call)) return after.state;
      return { ...after.state, record: { ...after.state.record, token: anonymous } };
    });
  }

  /** The clocks at which a registry may have decided a call, and those of them that an answer shows. */
  #boundsOf(call: Call & Effect<"claim" | "renew">): Bounds {
    const known = this.#bounds.get(call);
    if (known !== undefined) return known;
    const { window, clock } = call.request;
    const { maxClockSkew } = this.#info;
    const [earliest, latest] = [clock - maxClockSkew, clock + call.waited + maxClockSkew];
    const later = [...this.#times].filter(([, told]) => told >= call.asked).map(([time]) => time);
    // Where nothing later shows it, it was the earliest that can be.
    const ends = later.map((time) => time - window).filter((time) => time > clock);
    // Where the window of an anonymous claim begins shows nowhere.
    const begins = call.method === "renew" || this.isAnonymous(call) ? [] : later.map((time) => time + maxClockSkew);
    const shown = [clock, ...ends, ...begins].filter((time) => time >= earliest && time <= latest);
    const bounds = { earliest, latest, shown };
    this.#bounds.set(call, bounds);
    return bounds;
  }

  /** Whether the next fence is that of another claim. */
  #isGranted({ record, era }: RuleState, token: string): boolean {
    // In a new era it is another one.
    if (record !== undefined && record.era !== era) return false;
    const granted = this.#tokens.get((record?.fence ?? 0) + 1);
    return granted !== undefined && granted !== token;
  }

  /** Whether a record that no answer shows is none that an answer shows otherwise. */
  #isPossible({ fence, token, turn, until, renewals = 0 }: Stored): boolean {
    // Where nothing later is told, it makes no difference how many claims there were.
    if (fence > this.#highest + 1) return false;
    if (token === undefined) return true;
    const granted = this.#tokens.get(fence);
    const renewed = this.#renewals.get(`${fence} ${renewals}`);
    if (granted !== undefined && granted !== token) return false;
    return renewed === undefined || (renewed.turn === turn && renewed.until === until);
  }

  #claim(
    state: RuleState,
    { request }: Effect<"claim">,
    clocks: Clocks,
  ): { readonly answer: Grant; readonly state: RuleState } | undefined {
    const { record } = state;
    const { token } = sentOf(request);
    const view: PoolView = {
      byToken: (asked) => (record?.token === asked ? record : undefined),
      byId: () => record,
      // A claim of a certain worker ID looks nowhere else.
      firstUnused: () => undefined,
      oldest: () => [],
      oldestOfHost: () => [],
      pinnedFor: () => [],
      newestOfHost: () => undefined,
    };
    return refusing(() => {
      const present = this.#state(state, clocks.registry);
      checkWindow(request.window, this.#info);
      checkSkew(clocks.holder, clocks.registry, this.#info);
      if (present.clock < present.opensAt) return undefined;
      const asked = { ...request, token, workerId: this.#workerId, clock: clocks.holder };
      const { answer, store = record } = decideClaim(view, asked, present);
      return answer.outcome === "granted" ? { answer, state: { ...state, record: store } } : undefined;
    });
  }

  #renew(
    state: RuleState,
    { request }: Effect<"renew">,
    clocks: Clocks,
  ): { readonly answer: Renewal | Lost; readonly state: RuleState } | undefined {
    const asked = { ...sentOf(request), clock: clocks.holder };
    return refusing(() => {
      const verdict = decideRenewal(this.#state(state, clocks.registry), state.record, asked, noMark);
      const { begins, answer, record = state.record } = verdict;
      if (begins !== undefined || answer.outcome === "quarantine") return undefined;
      return { answer, state: { ...state, record } };
    });
  }

  /** Decides a call of which the clocks decide nothing. */
  #decideAt(
    state: RuleState,
    call: Call,
    clock: number,
  ): { readonly answer: unknown; readonly state: RuleState } | undefined {
    const at = Math.max(clock, this.#eras.get(state.era) ?? 0);
    if (call.method === "claim") return undefined;
    if (call.method === "renew") return this.#renew(state, call, { holder: at, registry: at });
    const { record: before } = state;
    if (call.method === "forceRelease") {
      const refusal = forceRefusal(before, call.request, at);
      if (refusal !== undefined || before === undefined) return { answer: refusal ?? { outcome: "absent" }, state };
      const record = forced(before, at, false);
      return { answer: { outcome: "released", until: record.until }, state: { ...state, record } };
    }
    const { request } = call;
    return refusing(() => {
      const verdict = decideRelease(this.#state(state, at), before, sentOf(request), noMark);
      const { begins, answer, record = before } = verdict;
      return begins === undefined ? { answer, state: { ...state, record } } : undefined;
    });
  }

  /** The clocks at which a call may have been decided. */
  #clocks(sent: number, waited: number, registry: readonly number[], holder: readonly number[]): readonly Clocks[] {
    return [...new Set(registry)].flatMap((registry) => {
      const shown = [sent, sent + waited, ...holder, registry].filter(
        (clock) => clock >= sent && clock <= sent + waited,
      );
      return [...new Set(shown)].map((holder) => ({ holder, registry }));
    });
  }

  /** The state in each era in which the call may have been decided. */
  #inEras(state: RuleState, call: Call): readonly RuleState[] {
    const told = receiptOf(call)?.era;
    const known = "receipt" in call.request ? readReceipt(plain(call.request.receipt))?.era : undefined;
    const least = Math.max(numberOf(state.era), numberOf(known ?? "0"));
    const eras = told === undefined ? [...new Set([state.era, ...this.#eras.keys()])] : [told];
    return eras.filter((era) => numberOf(era) >= least).map((era) => ({ ...state, era }));
  }

  /** The same for a call without an answer: no registry grants in an era that begins later than its clock can be. */
  #erasUntold(state: RuleState, call: Call): readonly RuleState[] {
    const begun = this.#inEras(state, call);
    if (call.method !== "claim" && call.method !== "renew") return begun;
    const { latest } = this.#boundsOf(call);
    return begun.filter(({ era }) => (this.#eras.get(era) ?? 0) <= latest);
  }

  #state({ era }: RuleState, clock: number): NamespaceState {
    const opensAt = this.#eras.get(era) ?? 0;
    return { era, opensAt, quarantineEnd: opensAt, info: this.#info, clock };
  }

  #distinct(states: readonly RuleState[]): readonly RuleState[] {
    return [...new Map(states.map((state) => [keyOf(state), state])).values()];
  }
}

/** Whether the rule grants nothing to another token, as no clock of it shows the end of the window. */
function isHeldUntil(clock: number, { record, era }: RuleState, token: string): boolean {
  if (record === undefined || record.token === token || record.owner !== undefined) return false;
  return record.until > clock && !(record.clean && record.era === era);
}

/** In the place of a token that nobody was told anything of. */
const anonymous = "anonymous";

/** A store that forgets nothing begins no era by a receipt. */
const noMark = (): string => "";

/** The outcome, or undefined where the rule refuses the request: such a call has no answer of these. */
function refusing<Outcome>(decide: () => Outcome): Outcome | undefined {
  try {
    return decide();
  } catch (error) {
    if (isSnowleaseError(error)) return undefined;
    throw error;
  }
}

/** When each era began to grant: its fences lie above that, and its windows begin then at the earliest. */
function openings(calls: readonly Call[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const call of calls) {
    const era = receiptOf(call)?.era;
    const window = grantIn(call) ?? renewalIn(call);
    if (era === undefined || window === undefined) continue;
    const fence = window.outcome === "granted" ? window.fence - 1 : Infinity;
    found.set(era, Math.min(found.get(era) ?? Infinity, fence, window.from));
  }
  const inOrder = [...found].toSorted(([a], [b]) => numberOf(a) - numberOf(b));
  // Fences of an era without a quarantine before it count from 1.
  return new Map(inOrder.map(([era, opensAt]) => [era, opensAt < longAgo ? 0 : opensAt]));
}

/** No clock of these registries shows a time before it, Unix ms. */
const longAgo = 1_000_000_000_000;

function numberOf(era: string): number {
  return Number.parseInt(era, 10);
}

function grantIn(call: Call): Grant | undefined {
  return call.method === "claim" && call.answer?.outcome === "granted" ? call.answer : undefined;
}

function renewalIn(call: Call): Renewal | undefined {
  return call.method === "renew" && call.answer?.outcome === "renewed" ? call.answer : undefined;
}

/** The receipt of the answer. */
function receiptOf(call: Call): Receipt | undefined {
  return readReceipt(plain((grantIn(call) ?? renewalIn(call))?.receipt));
}

/** The worker ID that a call names. */
function idIn({ method, request }: Call): number | undefined {
  return method === "claim" ? undefined : request.workerId;
}

const sentRequests = new WeakMap<object, object>();

/** As the registry gets it from its client. */
function sentOf<Request extends ClaimRequest | RenewRequest | ReleaseRequest>(request: Request): Request {
  const known = sentRequests.get(request) as Request | undefined;
  if (known !== undefined) return known;
  const receipt = "receipt" in request && { receipt: plain(request.receipt) };
  const sent = { ...request, token: storedToken(request.token), ...receipt };
  sentRequests.set(request, sent);
  return sent;
}

/** How many parts a receipt has before the signature of a daemon. */
const parts = 10;

/** A receipt without the signature of a daemon. */
function plain(receipt: string | undefined): string | undefined {
  return receipt?.split(".").slice(0, parts).join(".");
}

function isSameGrant(one: Grant, told: Grant): boolean {
  const key = ({ workerId, fence, from, until, recents }: Grant): string =>
    JSON.stringify([workerId, fence, from, until, recents]);
  return key(one) === key(told) && isSameReceipt(one, told);
}

function isSameRenewal(one: Renewal | Lost, told: Renewal): boolean {
  const key = ({ from, until, turn }: Renewal): string => JSON.stringify([from, until, turn]);
  return one.outcome === "renewed" && key(one) === key(told) && isSameReceipt(one, told);
}

/** A daemon that cannot sign a receipt leaves it out. */
function isSameReceipt(one: Grant | Renewal, told: Grant | Renewal): boolean {
  return told.receipt === undefined || plain(told.receipt) === one.receipt;
}

/** What an answer without a window says. */
function textOf(answer: unknown): string {
  const { outcome, reason, until } = answer as { outcome: string; reason?: string; until?: number };
  return `${outcome} ${reason ?? (outcome === "lost" ? "taken" : "")} ${until ?? ""}`;
}
