// A registry that does not raise the fence: each claim of a worker ID gets the one that the first had.

import { openOn } from "./mistaken.mjs";

export function open(options, note) {
  let fence = 0;
  return openOn(options, note, (registry) => ({
    async claim(request) {
      const answer = await registry.claim(request);
      fence = answer.fence;
      return { ...answer, fence: 1 };
    },
    renew: (request) => registry.renew({ ...request, fence }),
    release: (request) => registry.release({ ...request, fence }),
  }));
}
