import { SnowleaseError } from "../id/errors.ts";
import { ask, operationsBy, type OperationCall, requiredOperations } from "../registries/wrap.ts";
import type { Registry } from "../rule/registry.ts";

/** A call to a registry: which operation, and its arguments. */
export type RegistryCall = OperationCall<(typeof requiredOperations)[number]>;

/** Says what a lossy registry loses. */
export interface Losses {
  /**
   * Decides before each call. `request`: the registry never gets the request. `reply`: the registry applies the request, and the answer
   * is lost. In both cases the caller gets REGISTRY_UNAVAILABLE, and cannot know which of the two occurred.
   */
  readonly lose: (call: RegistryCall) => "request" | "reply" | undefined;
}

/** A registry behind a wire that loses what `lose` names. It has no optional operation. Closing it closes the registry. */
export function lossyRegistry(registry: Registry, { lose }: Losses): Registry {
  async function pass(call: RegistryCall): Promise<unknown> {
    const lost = lose(call);
    if (lost === undefined) return ask(registry, call);
    if (lost === "reply") await ask(registry, call).catch(() => undefined);
    throw new SnowleaseError(
      "REGISTRY_UNAVAILABLE",
      `The registry did not answer \`${call.method}\`; whether it was applied is unknown: ask again.`,
    );
  }

  return {
    kind: registry.kind,
    ...operationsBy<RegistryCall["method"]>(requiredOperations, pass),
    close: () => registry.close(),
  };
}
