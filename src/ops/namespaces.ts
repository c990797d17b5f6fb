import { isSnowleaseError, type SnowleaseError } from "../id/errors.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import { cannotList } from "../rule/namespace.ts";
import type { Registry } from "../rule/registry.ts";

/** Some registries look at all that they have for each page. */
const pageSize = 10_000;
/** Namespaces that are read at the same time. */
const readAtOnce = 16;

/** A namespace of a registry; `info` is the error where it cannot be read. */
export interface ListedNamespace {
  readonly namespace: string;
  readonly info: NamespaceInfo | SnowleaseError;
}

/** All namespaces of a registry, by name. @throws SnowleaseError CONFIG_INVALID for a registry that cannot list them. */
export async function* listNamespaces(registry: Registry): AsyncGenerator<ListedNamespace> {
  if (registry.namespaces === undefined) throw cannotList(registry.kind);
  for (let after: string | undefined; ;) {
    const page: readonly string[] = await registry.namespaces({ after, limit: pageSize });
    for (let at = 0; at < page.length; at += readAtOnce) {
      const some = page.slice(at, at + readAtOnce);
      const infos = await Promise.all(some.map((namespace) => infoOrError(registry, namespace)));
      for (const [i, namespace] of some.entries()) {
        const info = infos[i];
        // Otherwise it was dropped since.
        if (info !== undefined) yield { namespace, info };
      }
    }
    if (page.length < pageSize) return;
    after = page.at(-1);
  }
}

async function infoOrError(registry: Registry, namespace: string): Promise<ListedNamespace["info"] | undefined> {
  try {
    return await registry.describe(namespace);
  } catch (error) {
    if (isSnowleaseError(error, "REGISTRY_UNAVAILABLE") || !isSnowleaseError(error)) throw error;
    return error;
  }
}
