import { expect, onTestFinished } from "vitest";
import { Layout } from "../../src/id/layout.ts";
import type { LeaseEvents } from "../../src/lease/events.ts";
import { openRegistry, parseAddress } from "../../src/registries/index.ts";
import { eventually } from "./holder.ts";
import { type Maker, startMaker } from "./maker.ts";

/** A store that an operator can put back to an older copy of itself, while holders live. */
export interface CopiedStore {
  readonly url: string;
  /**
   * While it is put back, the store is away. Then holders that ask again may be heard before the newcomer, so that the newcomer waits for
   * the end of the quarantine. It gets a worker ID of its own, since it would compete with the holders for theirs.
   */
  readonly isAway?: boolean;
  copy(): Promise<void>;
  putBack(): Promise<void>;
}

const layout = Layout.parse("westid");
/** A quarantine lasts 3.4 s, and holders renew every second. */
const limits = { maxWindow: 3000, maxClockSkew: 200 };

/** The events of a lease. */
interface Heard {
  readonly quarantinedAt: number[];
  readonly lost: (LeaseEvents["lost"] & { readonly at: number })[];
  readonly renewedAt: number[];
}

/**
 * Puts a store back while three holders live: one from before the copy, one that the copy does not know, and one that claims from the
 * copy before any other holder has sent it a request. Compares all IDs.
 */
export async function expectFoundOut(
  { url, isAway = false, copy, putBack }: CopiedStore,
  namespace = "default",
): Promise<void> {
  const registry = await openRegistry(parseAddress(url), { operationTimeout: 5000 });
  onTestFinished(() => registry.close());
  await registry.init({ namespace, layout: layout.fingerprint, ...limits, new: true });
  const options = { registry: url, namespace, layout: "westid", window: 3000, onLost: "stop", pool: "0-2" } as const;
  // Each holder has its own worker ID. Otherwise, if the copy takes longer than a window, the first worker ID is free meanwhile.
  const older = await startMaker({ ...options, pool: "0-0", claimTimeout: 0 });
  await copy();
  const forgotten = await startMaker({ ...options, pool: "1-1", claimTimeout: 0 });
  await forgotten.made(100);
  const [ofOlder, ofForgotten] = [hear(older), hear(forgotten)];
  await putBack();
  const own = isAway ? { pool: "2-2" } : {};
  const later = await startMaker({ ...options, ...own, claimTimeout: 30_000 });

  await eventually(
    async () => ofForgotten.lost.length,
    (lost) => lost > 0,
  );
  const [loss] = ofForgotten.lost;
  expect(loss).toMatchObject({ reason: "forgotten", workerId: 1 });
  // The holder from before the copy continues after the quarantine.
  const [begun = 0] = ofOlder.quarantinedAt;
  await eventually(
    async () => ofOlder.renewedAt,
    (renewed) => renewed.some((at) => at > begun + limits.maxWindow),
  );
  expect(ofOlder.lost).toEqual([]);
  await later.made(later.ids.length + 500);
  const newest = await startMaker({ ...options, claimTimeout: 30_000 });
  await newest.made(500);

  const makers = [older, forgotten, later, newest];
  await Promise.all(makers.map((maker) => maker.stop()));
  const twice = duplicatesOf(makers);
  // Only the holder that the store forgot made IDs that another holder made, too, and only until its next answered renewal.
  const last = Math.max(0, ...twice.map((id) => layout.decompose(id).timestamp));
  expect(last).toBeLessThanOrEqual(loss?.at ?? 0);
  if (isAway) expect(twice).toEqual([]);
  if (twice.length > 0) expect(loss?.doubt?.until ?? 0).toBeGreaterThan(last);
}

function hear({ snowflake: { lease } }: Maker): Heard {
  const heard: Heard = { quarantinedAt: [], lost: [], renewedAt: [] };
  lease.on("quarantine", () => void heard.quarantinedAt.push(Date.now()));
  lease.on("lost", (event) => void heard.lost.push({ ...event, at: Date.now() }));
  lease.on("renewed", () => void heard.renewedAt.push(Date.now()));
  return heard;
}

function duplicatesOf(makers: readonly Maker[]): readonly bigint[] {
  const seen = new Set<bigint>();
  return makers.flatMap(({ ids }) =>
    ids.filter((id) => {
      const isTwice = seen.has(id);
      seen.add(id);
      return isTwice;
    }),
  );
}

/** A store whose data an operator can remove while holders live. */
export interface EmptiedStore {
  readonly url: string;
  /** Removes all data of the namespace, and leaves a store in which the namespace can be made again. */
  empty(): Promise<void>;
  /** Whether the namespace needs `init`, since no claim makes it. */
  readonly needsInit?: boolean;
}

/** Empties a store under a live holder. A newcomer claims after the holder has shown its receipt to the empty store. Compares all IDs. */
export async function expectRemembered(
  { url, empty, needsInit = false }: EmptiedStore,
  namespace = "default",
): Promise<void> {
  const registry = await openRegistry(parseAddress(url), { operationTimeout: 5000 });
  onTestFinished(() => registry.close());
  await registry.init({ namespace, layout: layout.fingerprint, ...limits, new: true });
  const options = { registry: url, namespace, layout: "westid", window: 3000, onLost: "stop", pool: "0-2" } as const;
  const holder = await startMaker({ ...options, claimTimeout: 0 });
  const heard = hear(holder);
  await holder.made(100);
  await empty();
  await eventually(
    async () => heard.quarantinedAt.length,
    (count) => count > 0,
  );
  if (needsInit) await registry.init({ namespace, layout: layout.fingerprint, ...limits });
  const newcomer = await startMaker({ ...options, claimTimeout: 30_000 });
  await newcomer.made(500);
  await eventually(
    async () => heard.lost.length,
    (lost) => lost > 0,
  );
  expect(heard.lost[0]).toMatchObject({ reason: "forgotten", workerId: 0 });
  await Promise.all([holder, newcomer].map((maker) => maker.stop()));
  expect(newcomer.snowflake.lease.workerId).toBe(holder.snowflake.lease.workerId);
  expect(duplicatesOf([holder, newcomer])).toEqual([]);
}
