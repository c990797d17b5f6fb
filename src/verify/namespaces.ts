import { layouts } from "../id/layout.ts";
import { isSnowleaseError } from "../id/errors.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import type { Registry } from "../rule/registry.ts";
import { eachOf } from "./each-of.ts";

/** The layout of these namespaces, the same as in `conformance`. */
export const verifiedLayout: string = layouts.westid.fingerprint;
/** How many namespaces are removed at the same time. */
const together = 4;

/** What became of the namespaces. */
export interface Removal {
  readonly removed: number;
  /** The namespaces that could not be removed, each with the reason. */
  readonly left: readonly { readonly namespace: string; readonly reason: string }[];
}

/** The namespaces that a verification makes. Their names are not used again, so the registry may forget them completely. */
export class OwnNamespaces {
  readonly #prefix: string;
  readonly #names: string[] = [];
  #made = 0;

  /** @param prefix of all names. */
  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The name of a namespace that does not exist. */
  next(): string {
    const name = `${this.#prefix}_${++this.#made}`;
    this.#names.push(name);
    return name;
  }

  /** Makes a namespace. Rejects with the error of the registry if the registry refuses it. */
  async make(registry: Registry): Promise<string> {
    const namespace = this.next();
    await registry.init({ namespace, layout: verifiedLayout, new: true });
    return namespace;
  }

  /** Removes the last namespace. Rejects with the error of the registry if the registry refuses that. */
  async removeLast(registry: Registry): Promise<void> {
    const namespace = this.#names.at(-1);
    if (namespace !== undefined) await this.#remove(registry, namespace, true);
    this.#names.pop();
  }

  /** Removes all namespaces, and those that checks made beside them. Stops if the registry does not answer. Never rejects. */
  async removeAll(registry: Registry, tell: (share: number) => void): Promise<Removal> {
    const left: { namespace: string; reason: string }[] = [];
    let done = 0;
    let removed = 0;
    let silence: string | undefined;
    await eachOf(this.#names.splice(0), together, async (name, _, count) => {
      for (const namespace of [name, `${name}_b`]) {
        if (silence !== undefined && namespace === name) left.push({ namespace, reason: silence });
        if (silence !== undefined) return;
        try {
          if (await this.#remove(registry, namespace, namespace === name)) removed++;
        } catch (error) {
          const reason = (error as Error).message;
          if (isSnowleaseError(error, "REGISTRY_UNAVAILABLE")) silence = reason;
          left.push({ namespace, reason });
        }
      }
      tell(++done / count);
    });
    return { removed, left };
  }

  /** `isOwn`: the registry may have a note of the name, even if the namespace does not exist. */
  async #remove(registry: Registry, namespace: string, isOwn: boolean): Promise<boolean> {
    let info: NamespaceInfo | undefined;
    try {
      info = await registry.describe(namespace);
    } catch (error) {
      // A Redis may have only the note. Until the note ends, `describe` throws QUARANTINE.
      if (!isSnowleaseError(error, "QUARANTINE")) throw error;
    }
    if (info === undefined && !isOwn) return false;
    // A new namespace of this name takes the place of the note. Its removal removes the note, too.
    const { era = "" } = info ?? (await registry.init({ namespace, layout: verifiedLayout }));
    await registry.remove?.({ namespace, era, forget: true });
    return true;
  }
}
