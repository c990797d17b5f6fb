// A registry that answers each second renewal of a claim, and does not do it: a primary that loses what it acknowledged.

import { openOn } from "./mistaken.mjs";

export function open(options, note) {
  let renewals = 0;
  return openOn(options, note, (registry) => ({
    async renew(request) {
      const { clock, nextTurn, window, receipt } = request;
      if (++renewals % 2 === 1) return registry.renew(request);
      return { outcome: "renewed", from: 0, until: clock + window, clock, turn: nextTurn, receipt };
    },
  }));
}
