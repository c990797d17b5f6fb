import { configInvalid, type SnowleaseError } from "../id/errors.ts";

/** One sentence for people. `scope`: of a registry. */
export function scopeText(scope: string): string {
  return `Worker IDs are unique among ${scope}.`;
}

/**
 * A namespace that is about to be made, although namespaces of its name exist in other places, to which the same login or the same URL
 * leads other programs.
 */
export interface Elsewhere {
  readonly namespace: string;
  /** The place in which it would be made, as a phrase. */
  readonly here: string;
  /** The places of the other ones, as phrases; at least one. */
  readonly others: readonly string[];
  /** How to name the intended one. This text follows "to use that one,". */
  readonly naming: string;
}

/** The refusal to make a second registry silently. */
export function existsElsewhere({ namespace, here, others, naming }: Elsewhere): SnowleaseError {
  return configInvalid(
    `Namespace \`${namespace}\` does not exist in ${here}, and exists in ${others.join(", ")}: in two registries, both would grant the same worker IDs; to use that one, ${naming}; only where their IDs never meet, make another one with \`snowlease init --separate\`. Nothing was changed.`,
  );
}
