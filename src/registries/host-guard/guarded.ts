import { createHash, randomInt } from "node:crypto";
import { type Clock, systemClock } from "../../clock.ts";
import type { ClaimRequest, Grant, Refusal, Registry } from "../../rule/registry.ts";
import { type FileIdentity, StoreFile } from "../../store-file.ts";
import type { GuardName } from "./guard-name.ts";
import { holderElsewhere, HostGuard } from "./host-guard.ts";

/** A registry whose worker IDs are marked as taken for the whole host. So no user gets a worker ID that another user's file has granted. */
export interface GuardedRegistry extends Registry {
  /** Removes all marks, after a lease that ended without releasing its worker ID. */
  free(): void;
}

/**
 * The pause between two looks of a waiting claim, ms: the least, and the random part. Because of the random part, two claims that saw each
 * other do not meet again.
 */
const [leastPause, addedPause] = [50, 100];
/** How often at most a grant waits 1 ms for the next ms of the clock. */
const mostWaits = 10;

/**
 * Guards the claims of a registry in a file that not every user of this host shares. Between processes of one file, the registry alone
 * decides. A claim is refused while a process of another file marks the worker ID. A grant begins after the look that saw no such process,
 * because such a process may have ended a moment ago. If the system cannot mark, the claims are those of the registry.
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
        // Before the claim, because a waiting claim would otherwise write to its file at each look.
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

/** The same in each container that mounts the file. A path is not. */
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
 * Lets a grant begin in the next ms of this machine. A holder of another file may have used the present ms, and ended a moment ago. For the
 * same reason, this file does not know everything about earlier ticks.
 */
async function beginNow(grant: Grant, clock: Clock): Promise<Grant> {
  const seen = systemClock.now();
  // A timer may fire early. If the clock is set back meanwhile, waiting would not help.
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
