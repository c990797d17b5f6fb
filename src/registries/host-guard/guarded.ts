import { createHash, randomInt } from "node:crypto";
import { type Clock, systemClock } from "../../clock.ts";
import type { ClaimRequest, Grant, Refusal, Registry } from "../../rule/registry.ts";
import { type FileIdentity, StoreFile } from "../../store-file.ts";
import type { GuardName } from "./guard-name.ts";
import { holderElsewhere, HostGuard } from "./host-guard.ts";

/** A registry whose worker IDs are marked as taken for the whole host, so that no user gets one that another user's file has granted. */
export interface GuardedRegistry extends Registry {
  /** Takes all marks away; for a lease that ended without giving its worker ID back. */
  free(): void;
}

/** Between two looks of a claim that waits, ms: the least, and what is added at random, so that two that saw each other do not meet again. */
const [leastPause, addedPause] = [50, 100];
/** Waits for the next ms at most. */
const mostWaits = 10;

/**
 * Guards the claims of a registry in a file that not every user of this host shares. Between processes of one file the registry alone
 * decides. A claim is refused while a process of another file marks the worker ID; a grant begins after the look that saw no such process,
 * since one may have ended a moment ago. Where the system cannot mark, claims are those of the registry.
 */
export function guardedRegistry(registry: Registry, clock: Clock): GuardedRegistry {
  /** By the token of the claim. */
  const guards = new Map<string, HostGuard>();
  let file: FileIdentity | undefined;

  function free(token: string): void {
    guards.get(token)?.free();
    guards.delete(token);
  }

  function freeAll(): void {
    for (const token of guards.keys()) free(token);
  }

  async function marked(grant: Grant, request: ClaimRequest, granting: FileIdentity): Promise<Grant | Refusal> {
    const { namespace, token } = request;
    const guard = await HostGuard.hold(nameOf(grant, request, granting));
    if (guard === undefined) return grant;
    free(token);
    guards.set(token, guard);
    const other = await guard.other();
    if (other === undefined) return beginNow(grant, clock);
    free(token);
    const { workerId, fence, from, recents, receipt } = grant;
    const unused = { clock: clock.now(), used: { until: from, recents }, receipt };
    // If this fails, the worker ID rests in this file until its window has passed.
    await registry.release({ namespace, workerId, fence, token, ...unused }).catch(() => undefined);
    return refusalBy(other, request, granting, clock.now());
  }

  return {
    ...registry,
    free: freeAll,

    async claim(request) {
      const { namespace, workerId } = request;
      if (file !== undefined && workerId !== undefined) {
        // Before the claim: one that waits would write to its file at each look.
        const other = await holderElsewhere({ namespace, workerId, file: fileKey(file) });
        if (other !== undefined) return refusalBy(other, request, file, clock.now());
      }
      const answer = await registry.claim(request);
      if (answer.outcome !== "granted" || !(answer.store instanceof StoreFile)) return answer;
      file = answer.store.identity;
      return marked(answer, request, file);
    },

    async renew(request) {
      const answer = await registry.renew(request);
      if (answer.outcome === "lost") free(request.token);
      return answer;
    },

    async release(request) {
      try {
        return await registry.release(request);
      } finally {
        free(request.token);
      }
    },

    async close() {
      freeAll();
      await registry.close();
    },
  };
}

/** The same in each container that mounts the file: a path is not. */
function fileKey({ device, inode }: FileIdentity): string {
  return createHash("sha256").update(`${device}:${inode}`).digest("hex").slice(0, 16);
}

function nameOf({ workerId }: Grant, { namespace, clock }: ClaimRequest, file: FileIdentity): GuardName {
  const nonce = randomInt(36 ** 6)
    .toString(36)
    .padStart(6, "0");
  const uid = process.getuid?.() ?? 0;
  return { namespace, workerId, file: fileKey(file), uid, pid: process.pid, since: clock, nonce };
}

/**
 * Lets a grant begin in the next ms of this machine: a holder of another file may have used the present one, and have ended a moment ago.
 * For the same reason, what this file knows of earlier ticks is not all.
 */
async function beginNow(grant: Grant, clock: Clock): Promise<Grant> {
  const seen = systemClock.now();
  // A timer may fire early. Where the clock is set back meanwhile, a wait would not help.
  for (let tries = 0; tries < mostWaits && systemClock.now() <= seen; tries++) await systemClock.sleep(1);
  return { ...grant, from: Math.max(grant.from, Math.min(clock.now(), grant.until)), recents: undefined };
}

function refusalBy(
  { workerId, uid, pid, since }: GuardName,
  { holder }: ClaimRequest,
  { path }: FileIdentity,
  now: number,
): Refusal {
  return {
    outcome: "held",
    workerId,
    live: true,
    holder: { ...holder, pid, instance: "" },
    since,
    freeAt: now + leastPause + randomInt(addedPause),
    clock: now,
    elsewhere: { uid, file: path },
  };
}
