import type { Layout } from "../../src/id/layout.ts";
import type { Kind } from "./holders.ts";
import type { Traits } from "./scenario.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Leasing, Rules } from "./store.ts";

/** The difference between a history and one in which every participant follows the rule. */
export interface Variant {
  /** The store as holders see it. */
  readonly view?: (store: Leasing) => Leasing;
  /** The registry as a holder uses it. */
  readonly holding?: (registry: Registry) => Registry;
  readonly kind?: Kind;
  /** Called with each new ID. */
  readonly made?: (id: bigint, layout: Layout) => void;
  readonly rules?: Rules;
  /** The options that its histories always or never have. */
  readonly traits?: Partial<Traits>;
}
