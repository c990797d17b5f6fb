import { randomBytes } from "node:crypto";
import { type Era, type EraMark, firstEra, type NamespaceState, nextEra } from "./era.ts";
import { SnowleaseError } from "../id/errors.ts";
import { defaultLimits, type NamespaceInfo, type NamespaceLimits } from "./limits.ts";
import type { Note } from "./unknown-namespace.ts";

/** A namespace to store. */
export interface NewNamespace {
  readonly info: NamespaceInfo;
  readonly era: Era;
  /** `Registry.receiptKey`. */
  readonly receiptKey: string;
}

/**
 * A namespace that does not exist yet, with the default of each limit that is left out. `clock`: the registry's, Unix ms. `noted`: what
 * the store noted under its name.
 * @throws SnowleaseError LAYOUT_MISMATCH where a namespace of the name was dropped that had another layout.
 */
export function newNamespace(
  layout: string,
  limits: Partial<NamespaceLimits>,
  clock: number,
  noted: Note | undefined,
): NewNamespace {
  checkNotedLayout(layout, noted?.layout);
  const { maxWindow = defaultLimits.maxWindow, maxClockSkew = defaultLimits.maxClockSkew } = limits;
  const { id, receiptKey } = namespaceSecrets();
  const { era, quarantineEnd, opensAt } = noted ?? firstEra(clock, eraMark);
  return { info: { id, layout, maxWindow, maxClockSkew }, era: { era, quarantineEnd, opensAt }, receiptKey };
}

/** @throws SnowleaseError LAYOUT_MISMATCH. `stored`: the layout of the namespace of this name that was dropped. */
export function checkNotedLayout(asked: string, stored: string | undefined): void {
  if (stored === undefined || stored === asked) return;
  throw new SnowleaseError(
    "LAYOUT_MISMATCH",
    `A namespace of this name was dropped that had the layout ${stored}, and this process asks with ${asked}: their IDs could be equal; set the same layout, or use another namespace.`,
    { stored, asked },
  );
}

/**
 * What a copy stores that is put to another use: `Registry.separate`. Receipts of the original are of another namespace then, so they
 * show a process that asks the wrong store. The quarantine covers a copy that takes the place of its original after all.
 */
export function separated(state: NamespaceState): NewNamespace {
  const { info, clock } = state;
  const { id, receiptKey } = namespaceSecrets();
  return { info: { ...info, id }, era: nextEra(state, clock, info, eraMark), receiptKey };
}

/** What is drawn at random for a namespace. */
export function namespaceSecrets(): { readonly id: string; readonly receiptKey: string } {
  return { id: digits(16), receiptKey: digits(32) };
}

/** Draws random digits that tell two eras apart. */
export const eraMark: EraMark = () => digits(8);

function digits(bytes: number): string {
  return randomBytes(bytes).toString("hex");
}
