// Receipts of a holder whose worker ID the older copy has granted twice since, or has got back: that is no evidence, and the holder finds
// another claim in the place of its own.

import { and, either, eq, implies, le, not, symbols } from "./formulas.mjs";
import { under } from "./receipts.mjs";
import { fixed, line, made, present, versions } from "./store.mjs";

const own = { shown: "Int -> Int" }; // the receipt up to whose end the window was closed; 0: none
const { fence, token, from, until, receipt, shown } = symbols({ ...fixed, ...own });

export const beside = under({
  name: "beside",
  about: "the same, and what a later claim gets of a worker ID that was granted twice",
  fixed: own,
  everywhere: { shown: eq(shown(made), 0) },
  clauses: { "close the window of a claim beside the holder's": { shown: eq(shown(made), receipt) } },
  begin: [eq(shown(0), 0)],
  invariants: (s) => ({
    "where a window was closed beside a holder's, no later one begins within that holder's": versions(
      s,
      "a b",
      implies(
        and(not(eq(shown("a"), 0)), line("a", "b")),
        either(
          eq(fence("a"), fence("b")),
          and(eq(token("b"), 0), le(until(shown("a")), until("b"))),
          le(until(shown("a")), from("b")),
        ),
      ),
    ),
  }),
  follows: {},
  steps: {},
  wrong: [
    [
      "a window beside a holder's keeps its own end",
      ["close the window of a claim beside the holder's", "until", eq(until(made), until(present))],
    ],
    [
      "a window closes while another claim stands",
      ["close the window of a claim beside the holder's", "has no holder", "true"],
    ],
  ],
});
