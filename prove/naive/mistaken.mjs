import { openRegistry, parseAddress } from "../../dist/registries/index.js";
import { openOn as openLeaseOn } from "../leased.mjs";

/** A lease of ours, on a registry that does some things in a way of its own. `mistakes`: the registry as it is -> these. */
export async function openOn(options, note, mistakes) {
  const { registry: url, operationTimeout } = options;
  const registry = await openRegistry(parseAddress(url), { operationTimeout });
  const wrong = mistakes(registry);
  const get = (_, name) => wrong[name] ?? registry[name]?.bind?.(registry) ?? registry[name];
  return openLeaseOn(new Proxy(registry, { get }), options, note);
}
