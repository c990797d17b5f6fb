import { refusalError } from "../../lease/lease-errors.ts";
import { shown, SnowleaseError, timeText } from "../../id/errors.ts";
import { askInTime } from "../../lease/late-request.ts";
import { Layout } from "../../id/layout.ts";
import { listRecents } from "../../generator/recent-ticks.ts";
import { readReceipt } from "../../rule/receipt.ts";
import type {
  Checkpoint,
  ClaimKey,
  Grant,
  GrantingStore,
  LossReason,
  Lost,
  Recents,
  Refusal,
  Usage,
  WorkerRecord,
} from "../../rule/registry.ts";
import { defaultLimits, type NamespaceInfo } from "../../rule/limits.ts";
import {
  checkWindowLength,
  defaultWindow,
  leastTicks,
  leastTicksOfDefault,
  renewalPause,
} from "../../lease/window-length.ts";
import { type CheckpointJson, recentsJson } from "../../api/codec.ts";
import * as leases from "../../api/leases.ts";
import { StoreFile } from "../../store-file.ts";
import type { LostElsewhere } from "../../registries/daemon/registry.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";
import { otherRegistry } from "../access/receipts.ts";
import type { ShareKey } from "../../ops/lending.ts";
import type { AppContext } from "./context.ts";
import { checkWorkerId, readLayout } from "./namespaces.ts";
import { type Route, route } from "./route.ts";
import type { Visit } from "../visit.ts";

/** The shortest `renewAfterMs` of a share, ms. */
const shortestPause = 50;

/** How many claims and layouts a daemon remembers to save calls of the registry, about 35 MB and 10 MB. */
const [mostClaims, mostLayouts] = [200_000, 10_000];

/** The routes that claim, renew and release. */
export function leaseRoutes(context: AppContext): readonly Route[] {
  const { registry, takeBlocks, lends, receipts, clock, makeToken, log, quota, ...defaults } = context;

  /**
   * Namespace/worker ID -> fence and window of the claim, so that a renewal need not repeat the window. The stored record cannot replace
   * it, because it has only the end of the window. A length computed from that would grow with each renewal by the difference of the
   * clocks.
   */
  const known = new BoundedMap<string, { readonly fence: number; readonly window: number }>(mostClaims);

  const layoutFrom = (info: NamespaceInfo | undefined): Layout =>
    info === undefined ? defaults.layout : Layout.parse(info.layout);

  /** Fixed when a namespace is made. */
  const layouts = new BoundedMap<string, Layout>(mostLayouts);

  async function layoutOf(namespace: string): Promise<Layout> {
    const found = layouts.get(namespace);
    if (found !== undefined) return found;
    const info = await registry.describe(namespace);
    const layout = layoutFrom(info);
    if (info !== undefined) layouts.set(namespace, layout);
    return layout;
  }

  /** The terms of a claim, with this daemon's defaults. A claim that names this daemon's own settings costs no look-up. */
  async function claimTerms(namespace: string, body: leases.ClaimBody, visit: Visit) {
    const differs = difference(body, defaults);
    const isWhole = body.layout !== undefined && body.windowMs !== undefined;
    const knows = isWhole && defaults.limits === undefined && differs === undefined;
    const info = knows ? undefined : await registry.describe(namespace);
    const layout = body.layout === undefined ? layoutFrom(info) : await readLayout(registry, namespace, body.layout);
    if (info === undefined && differs !== undefined && !visit.may("admin")) throw notToCreate(namespace, differs);
    const limits = { ...(info === undefined && defaults.limits), ...body.limits };
    const { maxWindow } = { ...defaultLimits, ...limits, ...info };
    const window = body.windowMs ?? defaultWindow(defaults.window, layout, maxWindow);
    checkWindowLength("windowMs", window, layout, body.windowMs === undefined ? leastTicksOfDefault : leastTicks);
    return { layout, pool: layout.narrow({}, body.pool ?? defaults.pool), window, limits };
  }

  /** Window of a lease that another daemon claimed: its rest at the last write, or a little more. */
  async function storedWindow(namespace: string, record: WorkerRecord | undefined): Promise<number> {
    const info = await registry.describe(namespace);
    const left = record === undefined ? defaults.window : record.until - record.seenClock;
    return defaultWindow(left, layoutFrom(info), (info ?? defaultLimits).maxWindow);
  }

  /** Reads the record of a worker ID at most once. */
  function lookAt(namespace: string, workerId: number, fence: number | undefined) {
    const record = lazily(() => registry.worker(namespace, workerId));
    const stored = async (): Promise<WorkerRecord> => {
      const found = await record();
      if (found === undefined) throw await lost({ namespace, workerId, fence });
      return found;
    };
    return { record, stored };
  }

  /**
   * No claim has the fence 0. A request with it only tests whether renewals work. Unlike the request of a holder, it never begins a
   * quarantine.
   */
  async function rehearsed(namespace: string, workerId: number): Promise<never> {
    await registry.rehearse?.(namespace);
    throw await lost({ namespace, workerId, fence: 0 });
  }

  async function lost(
    { namespace, workerId, fence, receipt }: Omit<ShareKey, "fence"> & { readonly fence?: number | undefined },
    { reason = "taken", doubt }: Omit<Lost, "outcome"> = {},
  ): Promise<SnowleaseError> {
    await checkWorkerId(registry, namespace, workerId);
    const facts = { namespace, workerId, fence, reason };
    // If a share is lost, the lease goes on. But no other process knows of IDs that may exist twice.
    const isShare = fence !== undefined && lends({ namespace, workerId, fence, receipt });
    if (fence !== 0 && (!isShare || doubt !== undefined))
      log.warn({ event: "lost", ...facts, ...(doubt && { doubt }) }, "a lease is lost");
    const why = doubt !== undefined && (reason === "taken" || reason === "released") ? endedEarly : losses[reason];
    const span = doubt && `; its IDs from ${timeText(doubt.from)} to ${timeText(doubt.until)} may exist twice`;
    return new SnowleaseError(
      "LEASE_LOST",
      `Worker ${workerId} of namespace \`${namespace}\` is not held with this token: ${why}${span ?? ""}; make no more IDs with it, and claim again.`,
      { namespace, workerId, reason, ...(doubt && { doubt }) },
    );
  }

  /** The refusal of a renewal or release. */
  async function refused(key: ClaimKey, answer: Lost | LostElsewhere): Promise<SnowleaseError> {
    return "elsewhere" in answer ? otherRegistry(key.namespace) : lost(key, answer);
  }

  /** The fence of a request. A registry that forgot the worker ID does not know the fence, but the holder's receipt contains it. */
  async function fenceOf(
    fence: number | undefined,
    workerId: number,
    receipt: string | undefined,
    stored: () => Promise<WorkerRecord>,
  ): Promise<number> {
    if (fence !== undefined) return fence;
    const held = readReceipt(receipt);
    return held?.workerId === workerId ? held.fence : (await stored()).fence;
  }

  async function checkpointOf(
    namespace: string,
    { lastTimestamp, lastSequence }: CheckpointJson,
  ): Promise<Checkpoint | undefined> {
    if (lastTimestamp === undefined) return undefined;
    const { maxSequence } = await layoutOf(namespace);
    if (lastSequence !== undefined && lastSequence > maxSequence) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected \`lastSequence\` to be an integer from 0 to ${maxSequence} (the layout's), got ${shown(lastSequence)}; leave it out where it is not known.`,
      );
    }
    return { timestamp: lastTimestamp, sequence: lastSequence ?? maxSequence };
  }

  async function usageOf(
    namespace: string,
    body: leases.ReleaseBody,
    from: () => Promise<number>,
  ): Promise<Usage | undefined> {
    const { lastTimestamp, recent } = body;
    let { until } = body;
    if (until === undefined && lastTimestamp !== undefined) {
      const layout = await layoutOf(namespace);
      until = Math.max(await from(), layout.timeOf(layout.tickOf(lastTimestamp) + 1));
    }
    if (until === undefined) return undefined;
    const used = { until, checkpoint: await checkpointOf(namespace, body) };
    if (recent === undefined) return used;
    const bytes = Uint8Array.from(Buffer.from(recent, "base64"));
    const recents = { from: body.recentFrom ?? (await from()), bytes };
    checkRecents(recents, until, await layoutOf(namespace));
    return { ...used, recents };
  }

  const blocksRoute =
    takeBlocks &&
    route(leases.takeBlocks, async ({ namespace, workerId, body }) => {
      const answer = await takeBlocks({ namespace, workerId, ...body });
      if (answer.outcome === "lost") throw await lost({ namespace, workerId, fence: body.fence }, answer);
      return { blocks: answer.blocks };
    });

  return [
    route(leases.claim, async ({ namespace, body, visit, receipt: sent }) => {
      const recall = await receipts.verified(namespace, sent);
      const { layout, pool, window, limits } = await claimTerms(namespace, body, visit);
      const refusal = layout.refusalAt(body.now);
      if (refusal !== undefined) throw refusal;
      const { token = makeToken(), workerId, lastWorkerId, now, reuse, continues, leadMs: lead, shared } = body;
      const holder = { host: body.host ?? "", ip: body.ip ?? "", pid: body.pid ?? 0, instance: body.instance ?? "" };
      const preferred = [...(lastWorkerId === undefined ? [] : [lastWorkerId]), ...(body.preferred ?? [])];
      const terms = { pool, window, layout: layout.fingerprint, reuse, continues, lead, limits, shared };
      // A worker ID granted to a client that has hung up would rest for a whole window.
      await visit.present();
      const request = { namespace, token, workerId, preferred, holder, clock: now, recall, ...terms };
      const ask = (): Promise<Grant | Refusal | Lost> =>
        askInTime(clock, request, (request) => registry.claim(request));
      const whole = layout.narrow({}, defaults.pool);
      const size = whole.last - whole.first + 1;
      // A share takes no worker ID of the pool.
      const payer = shared === true ? undefined : quota;
      const answer = await (payer?.claim({ client: visit.payer, namespace, token }, size, ask) ?? ask());
      if (answer.outcome === "lost") throw repeatedError(namespace, answer);
      if (answer.outcome !== "granted") throw refusalError(answer, namespace, now);
      const { outcome: _, recents, store, receipt, ...grant } = answer;
      const isShare = grant.shared === true;
      visit.receipt = await receipts.signed(namespace, receipt);
      const { fence, from, until } = grant;
      const facts = { namespace, workerId: grant.workerId, fence, from, until, ...holder };
      if (isShare) log.info(facts, "lent");
      else {
        known.set(`${namespace}/${grant.workerId}`, { fence, window });
        log.info({ event: "claimed", ...facts }, "claimed");
      }
      const renewAfterMs = pauseOf(window, isShare ? until - grant.clock : undefined);
      const file = isShare ? fileOf(store) : undefined;
      return { ...grant, file, token, renewAfterMs, layout: layout.fingerprint, ...recentsJson(recents) };
    }),

    route(leases.renew, async ({ namespace, workerId, body, visit, receipt: sent }) => {
      const { token, now, turn, nextTurn, sentTurns } = body;
      if (body.fence === 0) return rehearsed(namespace, workerId);
      const receipt = await receipts.verified(namespace, sent);
      if (body.windowMs !== undefined) checkWindowLength("windowMs", body.windowMs, await layoutOf(namespace));
      const { record, stored } = lookAt(namespace, workerId, body.fence);
      const fence = await fenceOf(body.fence, workerId, receipt, stored);
      const name = `${namespace}/${workerId}`;
      const claim = known.get(name);
      const window =
        body.windowMs ??
        (claim?.fence === fence
          ? claim.window
          : await storedWindow(namespace, receipt === undefined ? await stored() : await record()));
      const checkpoint = await checkpointOf(namespace, body);
      const key = { namespace, workerId, fence, token, turn, nextTurn, sentTurns, receipt };
      const request = { ...key, clock: now, window, checkpoint };
      const answer = await askInTime(clock, request, (request) => registry.renew(request));
      if (answer.outcome === "lost") throw await refused(key, answer);
      visit.receipt = await receipts.signed(namespace, answer.receipt);
      const { from, until } = answer;
      const isShare = lends(key);
      if (!isShare) {
        if (body.windowMs === undefined) known.set(name, { fence, window });
        quota?.note({ client: visit.payer, namespace, token }, until);
      }
      const renewAfterMs = pauseOf(window, isShare ? until - answer.clock : undefined);
      return { from, until, clock: answer.clock, turn: answer.turn, renewAfterMs };
    }),

    ...[leases.release, leases.releaseByDelete].map((call) =>
      route(call, async ({ namespace, workerId, body, visit, receipt: sent }) => {
        const receipt = await receipts.verified(namespace, sent);
        const { stored } = lookAt(namespace, workerId, body.fence);
        const fence = await fenceOf(body.fence, workerId, receipt, stored);
        const used = await usageOf(namespace, body, async () => (await stored()).from);
        const { token, now = clock.now(), turn, nextTurn, sentTurns } = body;
        const key = { namespace, workerId, fence, token, turn, nextTurn, sentTurns, receipt };
        const answer = await registry.release({ ...key, clock: now, used });
        if (answer.outcome === "lost") throw await refused(key, answer);
        if (lends(key)) return;
        known.delete(`${namespace}/${workerId}`);
        if (used !== undefined) quota?.note({ client: visit.payer, namespace, token }, used.until);
        log.info({ event: "released", namespace, workerId, fence, clean: used !== undefined }, "released");
      }),
    ),
    ...(blocksRoute === undefined ? [] : [blocksRoute]),
  ];
}

/** Time until the renewal, ms. It follows from the requested window. For a share, it also follows from the rest of the daemon's window. */
function pauseOf(window: number, left?: number): number {
  if (left === undefined) return Math.floor(renewalPause(window));
  return Math.max(shortestPause, Math.floor(renewalPause(Math.min(window, left))));
}

const losses: Readonly<Record<LossReason, string>> = {
  taken: "another holder claimed it after its window had passed, or the token is not its present holder's",
  released: "it was given back, or an operator released it",
  forgotten: "the registry went back in time and does not know this claim any more",
  cloned: "a copy of this client has renewed it, or this request names no present turn",
};

const endedEarly = "another claim had the worker ID before the window passed";

/** A copy of the claimer has renewed this claim, or it was granted before a quarantine. */
function repeatedError(namespace: string, { reason = "taken" }: Lost): SnowleaseError {
  return new SnowleaseError(
    "LEASE_LOST",
    `The claim of this token in namespace \`${namespace}\` is over (${reason}); claim again with another token.`,
    { namespace, reason },
  );
}

/** The setting of this daemon from which a claim differs. Such a claim must not create a namespace without the role `admin`. */
function difference(
  { layout: text, limits = {} }: leases.ClaimBody,
  defaults: Pick<AppContext, "layout" | "limits">,
): string | undefined {
  const { fingerprint } = defaults.layout;
  if (text !== undefined && text !== fingerprint && !isLayout(text, fingerprint)) return `layout ${fingerprint}`;
  const own = { ...defaultLimits, ...defaults.limits };
  const name = (["maxWindow", "maxClockSkew"] as const).find((name) => (limits[name] ?? own[name]) !== own[name]);
  return name && `${name} ${own[name]} ms`;
}

/** Whether a text is the name or another notation of a layout. */
function isLayout(text: string, fingerprint: string): boolean {
  try {
    return Layout.parse(text).fingerprint === fingerprint;
  } catch {
    return false;
  }
}

function notToCreate(namespace: string, own: string): SnowleaseError {
  return new SnowleaseError(
    "FORBIDDEN",
    `There is no namespace \`${namespace}\` yet, and only a token of the role \`admin\` creates one that differs from this daemon's ${own}; ask with that, or have an administrator run \`snowlease init --namespace ${namespace}\`.`,
    { namespace },
  );
}

/** Refuses recents that the next holder could not read. Also refuses ticks after the window, which would block the worker ID until then. */
function checkRecents(recents: Recents, until: number, layout: Layout): void {
  let last: number;
  try {
    last = listRecents(layout, recents).at(-1)?.[0] ?? -1;
  } catch (cause) {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      "Expected `recent` to list ticks and their highest sequences as a holder writes them, got other bytes; leave it out.",
      {},
      { cause },
    );
  }
  if (last < 0 || layout.timeOf(last) < until) return;
  throw new SnowleaseError(
    "CONFIG_INVALID",
    `Expected \`recent\` to list ticks before ${until} (where the window closes), got one that begins at ${layout.timeOf(last)}.`,
  );
}

/** The registry's file. Child processes on this machine watch it, as the lease server does. Only they get its path. */
function fileOf(store: GrantingStore | undefined): leases.FileJson | undefined {
  if (!(store instanceof StoreFile)) return undefined;
  const { path, device, inode } = store.identity;
  return { path, device: String(device), inode: String(inode) };
}

/** Makes a promise at the first call, and returns the same one each time. */
function lazily<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined;
  return () => (made ??= make());
}
