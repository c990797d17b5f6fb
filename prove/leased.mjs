// Ours: nothing but the library, and a note of each call of its registry and of each window that it was granted.

import { snowlease } from "../dist/index.js";
import { openRegistry, parseAddress } from "../dist/registries/index.js";
import { recordCalls } from "./calls.mjs";

export async function open(options, note) {
  const { registry: url, operationTimeout } = options;
  const registry = await openRegistry(parseAddress(url), { operationTimeout });
  return openOn(registry, options, note);
}

/** On this registry, which is closed with the lease. */
export async function openOn(registry, options, note) {
  let ids;
  try {
    ids = await snowlease({ ...options, registry: recordCalls(registry, note) });
  } catch (error) {
    await registry.close();
    throw error;
  }
  ids.lease.signal.addEventListener("abort", () => void registry.close());
  noteWindows(ids.lease, note);
  return {
    fill: (target) => ids.fill(target),
    close: () => ids.close().finally(() => registry.close()),
    get isOver() {
      return ids.lease.signal.aborted;
    },
  };
}

/**
 * Writes down each window before anything is made in it, and the end of a lease before anybody else can be told of it: that it was lost,
 * and why, is known a moment later.
 */
export function noteWindows(lease, note) {
  let known;
  const look = () => {
    const { snapshot } = lease;
    if (snapshot === known) return;
    if (known !== undefined && snapshot?.generation !== known.generation) note({ left: "own will" });
    if (snapshot !== undefined) {
      const { generation, workerId, fence, from, until, knownFrom } = snapshot;
      note({ window: { generation, workerId, fence, from, until, knownFrom } });
    }
    known = snapshot;
  };
  look();
  lease.on("lost", ({ reason, fence }) => note({ left: "lost", reason, fence }));
  lease.on("quarantine", () => note({ heard: "quarantine" }));
  lease.onChange(look);
}
