// Ours: nothing but the library, and a note of each window that it was granted.

import { snowlease } from "../dist/index.js";

export async function open(options, note) {
  const ids = await snowlease(options);
  noteWindows(ids.lease, note);
  return {
    fill: (target) => ids.fill(target),
    close: () => ids.close(),
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
