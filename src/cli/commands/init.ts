import { lengthText } from "../../id/duration.ts";
import { timeText } from "../../id/errors.ts";
import { isOfRemoved } from "../../rule/era.ts";
import { quarantineAdvice } from "../../ops/quarantine.ts";
import { storeOf } from "../../registries/index.ts";
import { scopeText } from "../../rule/scope.ts";
import { assumedLimits, type NamespaceInfo } from "../../rule/limits.ts";
import type { CliCommand } from "../command.ts";
import { jsonList } from "../terminal/output.ts";
import {
  addressOf,
  namedRegistryConfig,
  namedRegistryRule,
  namespacesOf,
  registryConfig,
  registryFlag,
  withOpened,
} from "../settings.ts";

export const init: CliCommand = {
  name: "init",
  summary: "Create namespaces in a registry, or check that existing ones have these options.",
  details: [
    namedRegistryRule,
    "Fixes the layout of a namespace, its longest window and its tolerated clock difference. A repeated call with the same options changes nothing. For sqlite, init is optional, because the first claim does the same. In an SQL database, init creates or upgrades the tables. If your user may not do that, let an administrator run the statements of --print, then run init.",
    "Name all namespaces that your programs use, as arguments or with --namespace. JSON is an array, also for one namespace.",
    "A Redis cannot distinguish a forgotten namespace from a new one. So without --new, init creates the namespace in quarantine. It grants nothing until every window that Redis may have forgotten has passed (10 min 32 s). With --new you confirm that the namespace never existed. Redis refuses --new if data or a quarantine of the namespace is recorded, for example after a first claim. `snowlease quarantine` then shows the command that ends the quarantine. Any other registry creates the namespace at once, and refuses --new if a worker ID of it was used. Until the first claim, you may repeat init --new. After that, use init without --new.",
    "init refuses a name that exists in another schema or database of the same server, as far as the login can see. In PostgreSQL and Oracle, a URL without a schema leads each user to its own schema. Name the schema in the URL, or use --separate.",
  ],
  examples: [
    "snowlease init --registry sqlite:/var/lib/snowlease/registry.db --namespace orders --layout twitter",
    "snowlease init orders users --registry redis://127.0.0.1:6379 --new",
    "snowlease init --registry oracle://ids:PASSWORD@db:1521/ids --namespace orders --print",
  ],
  settings: ["registry", "namespace", "layout", "maxWindow", "maxClockSkew", "operationTimeout", "token", "config"],
  flags: {
    "--new": "Confirms that this namespace never existed. Refused if data of it exists.",
    "--separate": "Confirms that its IDs never meet those of a namespace of this name in another schema or database.",
    "--print": "Print the statements that set up the store, and change nothing.",
  },
  operands: { name: "[NAMESPACE…]", least: 0, most: 1000 },

  async run(invocation) {
    const { flags, operands, output, json } = invocation;
    const prints = flags.has("print");
    const config = await (prints ? registryConfig(invocation) : namedRegistryConfig(invocation));
    const address = addressOf(config);
    const namespaces = await namespacesOf(operands, config);
    if (prints) {
      const printed: object[] = [];
      for (const namespace of namespaces) {
        const ddl = (await storeOf(address).schema?.(address, namespace)) ?? "";
        if (json) printed.push({ namespace, registry: address.redacted, ddl });
        else await output.line(ddl === "" ? `-- ${address.redacted} needs no statements.` : ddl);
      }
      if (json) await jsonList(output, printed);
      return;
    }
    await withOpened(config, async (registry) => {
      const { layout, limits } = config;
      const words = { new: flags.has("new"), separate: flags.has("separate") };
      const made: object[] = [];
      const shown = { url: address.redacted, flag: registryFlag(invocation, config) };
      for (const namespace of namespaces) {
        const info = await registry.init({ namespace, layout: layout.fingerprint, ...limits, ...words });
        const scope = await registry.scope?.(namespace);
        if (json) made.push({ namespace, registry: address.redacted, ...info, scope });
        else {
          const clock = info.quarantineUntil === undefined ? 0 : (await registry.ping()).clock;
          for (const line of linesOf(namespace, { ...shown, clock }, info, scope)) await output.line(line);
        }
      }
      if (json) await jsonList(output, made);
    });
  },
};

/**
 * Describes a namespace that was made or already existed. `url`: without secrets. `flag`: how a command names the registry. `clock`: the
 * registry's, Unix ms.
 */
function linesOf(
  namespace: string,
  { url, flag, clock }: { readonly url: string; readonly flag: string | undefined; readonly clock: number },
  info: NamespaceInfo,
  scope: string | undefined,
): string[] {
  const { layout, maxWindow, maxClockSkew, quarantineUntil: until } = info;
  const state = until === undefined ? "is ready" : `is in quarantine until ${timeText(until)}`;
  const limits = `windows up to ${lengthText(maxWindow)}, clocks within ${lengthText(maxClockSkew)}`;
  const lines = [`Namespace ${namespace} ${state} in ${url}: layout ${layout}, ${limits}.`];
  if (scope !== undefined) lines.push(scopeText(scope));
  if (maxWindow > assumedLimits.maxWindow) {
    const wait = lengthText(maxWindow + 2 * maxClockSkew);
    lines.push(
      `A registry that loses the record of this namespace cannot know that it has windows of more than ${lengthText(assumedLimits.maxWindow)}. After such a loss, stop all holders, and let none begin for ${wait}.`,
    );
  }
  if (until === undefined) return lines;
  const advice = quarantineAdvice(info, { namespace, registry: flag, clock }) ?? "Claims wait or fail.";
  const why = isOfRemoved({ era: info.era ?? "", opensAt: until })
    ? "a namespace of this name was removed, and its windows have not all passed"
    : "this registry may have forgotten windows";
  return [...lines, `Until then it grants nothing: ${why}. ${advice}`];
}
