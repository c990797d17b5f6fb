import { randomBytes } from "node:crypto";
import { openRegistry, parseAddress, type RegistryAddress } from "../registries/index.ts";
import type { HolderOptions } from "./holder.ts";

/** Options of Snowlease that choose worker IDs. */
const choices = ["pool", "workerId", "properties", "env", "ordinal", "assigner", "datacenter", "machine"];
/** Deadline of one operation of a removal, ms. */
const operationTimeout = 20_000;

/** Options for holders, with a namespace that they share. */
interface OwnNamespace {
  readonly options: HolderOptions;
  /** Rejects with the error of the registry if the registry refuses the removal. */
  remove(): Promise<void>;
}

/**
 * Makes a new namespace for holders that make Snowlease's IDs. It has two worker IDs, so that each process gets the worker ID of an
 * earlier one. Options that name a module or a namespace stay as they are. Rejects with the error of the registry if the registry refuses
 * the namespace.
 */
export async function ownNamespace(options: HolderOptions): Promise<OwnNamespace> {
  const { registry, module, options: given = {} } = options;
  if (registry === undefined || module !== undefined || "namespace" in given)
    return { options, remove: async () => undefined };
  const namespace = newName("restarts");
  const { snowlease } = await import("../snowlease.ts");
  await snowlease.init({ ...given, registry, namespace, new: true });
  const pool = choices.some((name) => name in given) ? {} : { pool: "0-1" };
  return {
    options: { ...options, options: { window: "2s", claimTimeout: "20s", ...given, ...pool, namespace } },
    remove: () => forgetNamespace(registry, namespace, given),
  };
}

/** A name that no namespace has. */
function newName(prefix: string): string {
  return `${prefix}_${randomBytes(6).toString("hex")}`;
}

/** Removes a namespace whose name is not used again. `given`: further options, such as a token. */
async function forgetNamespace(url: string, namespace: string, given: object): Promise<void> {
  const address = { ...parseAddress(url), ...("token" in given && { token: given.token }) } as RegistryAddress;
  const registry = await openRegistry(address, { operationTimeout });
  try {
    const info = await registry.describe(namespace);
    // A store that was put back to an older copy does not know the namespace.
    if (info !== undefined) await registry.remove?.({ namespace, era: info.era ?? "", forget: true });
  } finally {
    await registry.close();
  }
}
