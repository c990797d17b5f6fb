import { configInvalid, type SnowleaseError } from "../id/errors.ts";

/** One sentence for people. `scope`: of a registry. */
export function scopeText(scope: string): string {
  return `Worker IDs are unique among ${scope}.`;
}

/** A namespace is about to be made, and others of its name are where the same login, or the same URL, leads other programs. */
export interface Elsewhere {
  readonly namespace: string;
  /** Where it would be made, as a phrase. */
  readonly here: string;
  /** Where others are, as phrases; at least one. */
  readonly others: readonly string[];
  /** How to name the one that is meant: goes on after "to use that one,". */
  readonly naming: string;
}

/** The refusal to make a second registry without a word. */
export function existsElsewhere({ namespace, here, others, naming }: Elsewhere): SnowleaseError {
  return configInvalid(
    `Namespace \`${namespace}\` does not exist in ${here}, and exists in ${others.join(", ")}: in two registries, both would grant the same worker IDs; to use that one, ${naming}; only where their IDs never meet, make another one with \`snowlease init --separate\`. Nothing was changed.`,
  );
}
