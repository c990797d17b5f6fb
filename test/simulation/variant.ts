import type { Layout } from "../../src/id/layout.ts";
import type { Kind } from "./holders.ts";
import type { Traits } from "./scenario.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Leasing, Rules } from "./store.ts";

/** Where a history differs from one in which everybody keeps the rule. */
export interface Variant {
  /** What holders see of the store. */
  readonly view?: (store: Leasing) => Leasing;
  /** What a holder does with its registry. */
  readonly holding?: (registry: Registry) => Registry;
  readonly kind?: Kind;
  /** Called with each ID that is made. */
  readonly made?: (id: bigint, layout: Layout) => void;
  readonly rules?: Rules;
  /** What its histories have at any rate, or have not. */
  readonly traits?: Partial<Traits>;
}
