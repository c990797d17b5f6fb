// It keeps no receipts: a registry that was put back to an older copy of itself is not found out.

import { openOn } from "../recorded.mjs";

export function open(options, note, image) {
  const without = (registry, name) => (request) =>
    registry[name]({ ...request, receipt: undefined, recall: undefined });
  const mistakes = (registry) => {
    const wrong = Object.fromEntries(["claim", "renew", "release"].map((name) => [name, without(registry, name)]));
    return new Proxy(registry, { get: (real, name) => wrong[name] ?? real[name]?.bind?.(real) ?? real[name] });
  };
  return openOn(mistakes, options, note, image);
}
