import type { RegistryAddress } from "../core/address.ts";
import type { Command } from "./command.ts";
import { addressOf, openConfigured, registryConfig } from "./settings.ts";

export const init: Command = {
  name: "init",
  summary: "Create a namespace in a registry, or check that it is as asked.",
  details: [
    "Fixes the namespace's layout, its longest window and the largest difference of clocks that it tolerates. Run again with the " +
      "same options, it changes nothing. Optional for sqlite, where the first claim does the same. In an SQL database it makes or upgrades " +
      "the tables; who may not make any has what --print shows run by somebody who may, and runs init then.",
  ],
  examples: [
    "snowlease init --registry sqlite:./registry.db --namespace orders --layout twitter",
    "snowlease init --registry oracle://ids:PASSWORD@db:1521/ids --namespace orders --print",
  ],
  settings: ["registry", "namespace", "layout", "maxWindow", "maxClockSkew", "operationTimeout", "token", "config"],
  flags: [{ name: "print", description: "Show the statements that set up the store, and touch nothing." }],

  async run(invocation) {
    const { flags, output, json } = invocation;
    const config = await registryConfig(invocation);
    const address = addressOf(config);
    if (flags.has("print")) {
      const ddl = await schemaOf(address.kind, config.namespace);
      if (json) await output.json({ registry: address.redacted, ddl });
      else await output.line(ddl === "" ? `-- ${address.redacted} needs no statements.` : ddl);
      return;
    }
    const registry = await openConfigured(config);
    try {
      const { namespace, layout, limits } = config;
      const info = await registry.init({ namespace, layout: layout.fingerprint, ...limits });
      if (json) return await output.json({ namespace, registry: address.redacted, ...info });
      await output.line(
        `Namespace ${namespace} is ready in ${address.redacted}: layout ${info.layout}, windows up to ${info.maxWindow} ms, clocks within ${info.maxClockSkew} ms.`,
      );
    } finally {
      await registry.close().catch(() => undefined);
    }
  },
};

/** The statements that set up a store; none where it needs none. */
async function schemaOf(kind: RegistryAddress["kind"], namespace: string): Promise<string> {
  if (kind === "sqlite") return (await import("../assets.ts")).readSql("sqlite/schema.sql").trimEnd();
  if (kind !== "mysql" && kind !== "oracle" && kind !== "postgres") return "";
  return (await import("../registries/sql/init.ts")).schemaText(kind, namespace);
}
