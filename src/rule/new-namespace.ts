import { randomBytes } from "node:crypto";
import { type Era, type EraMark, firstEra, type NamespaceState, nextEra } from "./era.ts";
import { defaultLimits, type NamespaceInfo, type NamespaceLimits } from "./limits.ts";

/** A namespace to store. */
export interface NewNamespace {
  readonly info: NamespaceInfo;
  readonly era: Era;
  /** `Registry.receiptKey`. */
  readonly receiptKey: string;
}

/**
 * A namespace that does not exist yet, with the default of each limit that is left out. `clock`: the registry's, Unix ms. `noted`: the era
 * that the store noted under its name.
 */
export function newNamespace(
  layout: string,
  limits: Partial<NamespaceLimits>,
  clock: number,
  noted: Era | undefined,
): NewNamespace {
  const { maxWindow = defaultLimits.maxWindow, maxClockSkew = defaultLimits.maxClockSkew } = limits;
  const { id, receiptKey } = namespaceSecrets();
  return { info: { id, layout, maxWindow, maxClockSkew }, era: noted ?? firstEra(clock, eraMark), receiptKey };
}

/**
 * What a copy stores when it is separated for another use: `Registry.separate`. Receipts of the original then belong to another namespace,
 * so they reveal a process that asks the wrong store. The quarantine protects holders if the copy takes the place of its original after
 * all.
 */
export function separated(state: NamespaceState): NewNamespace {
  const { info, clock } = state;
  const { id, receiptKey } = namespaceSecrets();
  return { info: { ...info, id }, era: nextEra(state, clock, info, eraMark), receiptKey };
}

/** Draws the random values of a namespace. */
export function namespaceSecrets(): { readonly id: string; readonly receiptKey: string } {
  return { id: digits(16), receiptKey: digits(32) };
}

/** Draws random digits that tell two eras apart. */
export const eraMark: EraMark = () => digits(8);

function digits(bytes: number): string {
  return randomBytes(bytes).toString("hex");
}
