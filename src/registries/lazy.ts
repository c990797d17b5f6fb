import { isEmpty, openRegistry, type RegistryAddress, storeOf } from "./index.ts";
import type { RegistryOptions } from "./store-kind.ts";
import { monotonic, systemClock } from "../clock.ts";
import { configInvalid, shown } from "../id/errors.ts";
import { pinEach, unpinEach } from "./pin-batches.ts";
import { type Registry } from "../rule/registry.ts";
import { defaultLimits, type NamespaceLimits } from "../rule/limits.ts";
import { ask, operationsBy, requiredOperations } from "./wrap.ts";

/** A registry that opens at its first operation, so that an error before that leaves no file. */
export interface LazyRegistry extends Registry {
  /** Opens the registry now. Rejects with the error of the store. The next operation then tries again. */
  open(): Promise<void>;
}

/**
 * The registry at an address, not opened yet. If no new namespace allows the window of a claim, it refuses the claim before it makes a
 * file. It has no `acceptClock`: an operator opens the registry for that.
 */
export function lazyRegistry(address: RegistryAddress, options: RegistryOptions): LazyRegistry {
  const { clock = systemClock } = options;
  let opening: Promise<Registry> | undefined;

  async function opened(): Promise<Registry> {
    opening ??= openRegistry(address, options);
    try {
      return await opening;
    } catch (error) {
      opening = undefined;
      throw error;
    }
  }

  return {
    kind: storeOf(address).registryKind ?? address.kind,
    ...operationsBy([...requiredOperations, "verify", "rehearse", "endQuarantine", "remove", "scope"], async (call) =>
      ask(await opened(), call),
    ),
    ...(storeOf(address).signsReceipts !== true && {
      receiptKey: async (namespace) => (await opened()).receiptKey?.(namespace),
    }),
    open: async () => void (await opened()),

    async claim(request) {
      if (opening === undefined && isEmpty(address)) checkLongest(request.window, request.limits);
      const asked = monotonic(clock);
      const registry = await opened();
      // The claimer's clock went on while the registry opened. Without the difference, the clock would look set back.
      return registry.claim({ ...request, clock: request.clock + Math.floor(monotonic(clock) - asked) });
    },

    takeBlocks: async (request) => (await opened()).takeBlocks?.(request) ?? { outcome: "lost" },
    pinAll: async (namespace, pins) => pinEach(await opened(), namespace, pins),
    unpinAll: async (namespace, workerIds) => unpinEach(await opened(), namespace, workerIds),
    close: async () => (await opening?.catch(() => undefined))?.close(),
  };
}

/** @throws SnowleaseError CONFIG_INVALID if a namespace with these limits would refuse a window of this length, ms. */
export function checkLongest(
  window: number,
  { maxWindow = defaultLimits.maxWindow }: Partial<NamespaceLimits> = {},
): void {
  if (window <= maxWindow) return;
  throw configInvalid(
    `Expected \`window\` to be at most ${maxWindow} ms (the maxWindow of new namespaces), got ${shown(window)}; lower it, or raise \`maxWindow\`.`,
  );
}
