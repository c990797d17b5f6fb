import type { Registry } from "../rule/registry.ts";

/**
 * What a store may lack without breaking the rule.
 *
 * - `creates-namespaces`: a claim in a namespace that `init` has not seen creates it.
 * - `oldest-first`: where nothing else decides, the worker ID whose window ended longest ago is given out.
 * - `connections`: each registry object is a connection of its own, and refuses everything once it is closed.
 */
export type Capability = "creates-namespaces" | "oldest-first" | "connections";

/** What one check works on. Everything here is made for that check alone. */
export interface ConformanceSubject {
  /** A namespace that nobody has used in this store, nor the same name with `_b` behind it; at most 30 characters. */
  readonly namespace: string;
  /** A registry object over this check's store; each call gives another client of the same store. The check closes it. */
  open(): Promise<Registry>;
  /** Returns when the registry's clock has gone on by at least so many ms: a real sleep, or a step of a fake clock. */
  pause(ms: number): Promise<void>;
  /** The holders' clock, Unix ms. */
  now(): number;
  /** What this registry cannot do, each with the reason: checks that need it are skipped. */
  readonly lacks?: Readonly<Partial<Record<Capability, string>>> | undefined;
  /** Tears down what was made for this check. */
  close?(): Promise<void>;
}
