// A registry that does each renewal twice, with a turn of its own: two writers behind one address.

import { openOn } from "./mistaken.mjs";

export function open(options, note) {
  return openOn(options, note, (registry) => ({
    async renew({ turn, nextTurn, sentTurns, ...request }) {
      const answer = await registry.renew(request);
      await registry.renew(request);
      return answer.outcome === "renewed" ? { ...answer, turn: nextTurn } : answer;
    },
    release: ({ turn, nextTurn, sentTurns, ...request }) => registry.release(request),
  }));
}
