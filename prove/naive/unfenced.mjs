// A heartbeat without a fence: the registry refreshes whatever claim of the worker ID there is, and never says whose it is.

import { openOn } from "./mistaken.mjs";

export function open(options, note) {
  return openOn(options, note, (registry) => ({
    async renew(request) {
      const answer = await registry.renew(request);
      const { clock, window } = request;
      return answer.outcome === "renewed" ? answer : { outcome: "renewed", from: 0, until: clock + window, clock };
    },
  }));
}
