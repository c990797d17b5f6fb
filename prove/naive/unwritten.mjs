// A registry that answers renewals at once, and would write them down later.

import { openOn } from "./mistaken.mjs";

export function open(options, note) {
  return openOn(options, note, () => ({
    renew: async ({ clock, window }) => ({ outcome: "renewed", from: 0, until: clock + window, clock }),
  }));
}
