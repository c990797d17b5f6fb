import type { Lease } from "./lease.ts";

const leases = new Set<Lease>();
let listens = false;

/**
 * Closes this lease when the process has nothing more to do, unless it was closed before. A process that calls `process.exit`, throws, or
 * is ended by a signal does not come to that.
 */
export function closeAtEnd(lease: Lease): void {
  // Those that have ended need not be kept in memory.
  for (const other of leases) if (other.state === "closed" || other.state === "lost") leases.delete(other);
  if (!listens) process.on("beforeExit", closeLater);
  listens = true;
  leases.add(lease);
}

/** Behind the listeners of the program itself, which may still make IDs. */
function closeLater(): void {
  if (leases.size > 0) setImmediate(closeAll);
}

function closeAll(): void {
  for (const lease of leases) {
    // Where the registry does not answer, the worker ID rests until its window has passed, as after a crash.
    void lease.close().catch(() => undefined);
  }
  leases.clear();
}
