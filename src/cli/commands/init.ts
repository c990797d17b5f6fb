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
    "Fixes the namespace's layout, its longest window and its tolerated clock difference. Repeated with the same options, it changes nothing. Optional for sqlite, where the first claim does the same. In an SQL database it makes or upgrades the tables. Without the permission for that, have an administrator run the statements of --print, then run init.",
    "Each namespace is made by itself: name those that your programs use, as arguments or with --namespace. JSON is an array, also for one namespace.",
    "A Redis cannot tell a namespace that it forgot from one that never existed. Without --new, init makes the namespace in quarantine: it grants nothing until every window that it may have forgotten has passed (10 min 32 s). --new confirms that the namespace never existed; it is refused where data of the namespace exists, or a quarantine of it is recorded, as after a first claim: `snowlease quarantine` then shows the command that ends the quarantine. A registry of another kind makes the namespace at once in any case, and refuses --new where a worker ID of it was used. Until the first claim, init --new may be repeated; after that, use init without --new.",
    "Refused where a namespace of this name is in another schema or database of the same server, as far as the login sees it: a URL without a schema leads each user of PostgreSQL or Oracle to one of its own. Name the schema in the URL, or say --separate.",
  ],
  examples: [
    "snowlease init --registry sqlite:/var/lib/snowlease/registry.db --namespace orders --layout twitter",
    "snowlease init orders users --registry redis://127.0.0.1:6379 --new",
    "snowlease init --registry oracle://ids:PASSWORD@db:1521/ids --namespace orders --print",
  ],
  settings: ["registry", "namespace", "layout", "maxWindow", "maxClockSkew", "operationTimeout", "token", "config"],
  flags: {
    "--new": "Confirms that this namespace never existed; refused where data of it exists.",
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
