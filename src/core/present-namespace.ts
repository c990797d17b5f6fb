import type { NamespaceInfo, Registry } from "./registry.ts";
import { noNamespace } from "./window.ts";

/**
 * What is fixed for a namespace that has to exist.
 * @throws SnowleaseError NOT_FOUND
 */
export async function presentNamespace(
  registry: Pick<Registry, "describe">,
  namespace: string,
): Promise<NamespaceInfo> {
  const info = await registry.describe(namespace);
  if (info === undefined) throw noNamespace(namespace);
  return info;
}
