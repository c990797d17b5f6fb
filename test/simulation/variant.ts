import type { Layout } from "../../src/id/layout.ts";
import type { Kind } from "./holders.ts";
import type { Traits } from "./scenario.ts";
import type { Eras, Leasing } from "./store.ts";

/** Where a history differs from one in which everybody keeps the rule. */
export interface Variant {
  /** What holders see of the store. */
  readonly view?: (store: Leasing) => Leasing;
  readonly kind?: Kind;
  /** Called with each ID that is made. */
  readonly made?: (id: bigint, layout: Layout) => void;
  readonly eras?: Eras;
  /** What its histories have at any rate, or have not. */
  readonly traits?: Partial<Traits>;
}
