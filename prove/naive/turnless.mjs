// It sends no turns: two copies of one process renew one lease, by turns, for ever.

import { openOn } from "../recorded.mjs";

export function open(options, note, image) {
  const mistakes = (registry) => {
    const wrong = {
      async renew({ turn, nextTurn, sentTurns, ...request }) {
        const answer = await registry.renew(request);
        return answer.outcome === "renewed" ? { ...answer, turn: nextTurn } : answer;
      },
      release: ({ turn, nextTurn, sentTurns, ...request }) => registry.release(request),
    };
    return new Proxy(registry, { get: (real, name) => wrong[name] ?? real[name]?.bind?.(real) ?? real[name] });
  };
  return openOn(mistakes, options, note, image);
}
