import { configInvalid } from "../../id/errors.ts";
import { examine } from "../../ops/doctor/doctor.ts";
import { encryptionOf } from "../../registries/encryption.ts";
import { listOf, storeOf } from "../../registries/index.ts";
import type { CliCommand } from "../command.ts";
import { warned } from "../exit-codes.ts";
import { table } from "../terminal/output.ts";
import { whileWaiting } from "../terminal/progress.ts";
import {
  addressOf,
  namedRegistryConfig,
  openConfigured,
  registryConfig,
  registryFlag,
  registrySettings,
  withRegistry,
} from "../settings.ts";

export const doctor: CliCommand = {
  name: "doctor",
  summary:
    "Check what IDs here depend on: registry, clocks, layout, pool. Exits with 1 when a check fails, with 9 when one warns.",
  examples: [
    "snowlease doctor",
    "snowlease doctor --registry http://127.0.0.1:7070 --json",
    "snowlease doctor --registry sqlite:/var/lib/snowlease/registry.db --accept-clock",
  ],
  settings: [...registrySettings, "layout", "pool", "datacenter"],
  flags: {
    "--accept-clock":
      "Confirms that this host's clock is right, after a forward step was refused with CLOCK_SKEW. Needs a named registry.",
  },

  async run(invocation) {
    const { flags, output, json } = invocation;
    if (flags.has("accept-clock")) {
      const config = await namedRegistryConfig(invocation);
      const by = await withRegistry(config, (registry) => {
        if (registry.acceptClock !== undefined) return registry.acceptClock();
        throw configInvalid(
          `Expected \`--accept-clock\` with an embedded registry, which uses this host's clock, got the kind \`${registry.kind}\`; correct the clocks instead.`,
        );
      });
      if (json) return output.json(by);
      return output.line(`Accepted this host's clock, ${by.by} ms ahead of the last accepted time.`);
    }

    const config = await registryConfig(invocation);
    const { namespace, registryFrom, sources, layout, pool, operationTimeout } = config;
    const address = addressOf(config);
    const examined = examine.bind(undefined, {
      open: () => openConfigured(config),
      named: registryFrom === "named",
      namespace,
      layout: sources.layout === undefined ? undefined : layout,
      pool: sources.pool === undefined && sources.datacenter === undefined ? undefined : pool,
      list: listOf(address, { operationTimeout }),
      sent: {
        to: storeOf(address).registryKind === "daemon" ? "the daemon" : "the registry",
        encryption: () => encryptionOf(address, operationTimeout),
      },
      flag: registryFlag(invocation, config),
      file: address.kind === "sqlite" ? address.path : undefined,
      now: Date.now,
    });
    const findings = await whileWaiting(address.redacted, examined);
    const healthy = findings.every(({ status }) => status !== "fail");
    if (json) await output.json({ healthy, registry: address.redacted, namespace, findings });
    else
      await output.line(
        table(
          ["STATUS", "CHECK", "FINDING"],
          findings.map(({ status, check, detail }) => [status, check, detail]),
        ),
      );
    if (!healthy) return 1;
    return findings.some(({ status }) => status === "warn") ? warned : 0;
  },
};
