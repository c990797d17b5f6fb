import { isSnowleaseError, timeText } from "../../id/errors.ts";
import { presetNames, presets } from "../../id/notation.ts";
import { type ListedNamespace, listNamespaces } from "../../ops/namespaces.ts";
import type { CliCommand } from "../command.ts";
import { jsonList, longTable, mapped } from "../terminal/output.ts";
import { registryConfig, registrySettings, withRegistry } from "../settings.ts";

export const namespaces: CliCommand = {
  name: "namespaces",
  summary: "List the namespaces of a registry, each with its layout, its longest window and its quarantine.",
  details: [
    "QUARANTINE: until when the namespace grants nothing. A namespace that cannot be read (damaged, of another version, not for this user) is listed with the error. Of a daemon with tokens you get the namespaces that yours is for.",
  ],
  examples: ["snowlease namespaces", "snowlease namespaces --registry redis://db:6379 --json"],
  settings: registrySettings.filter((name) => name !== "namespace"),

  async run(invocation) {
    const { output, json } = invocation;
    const config = await registryConfig(invocation);
    await withRegistry(config, async (registry) => {
      const found = listNamespaces(registry);
      if (json) return jsonList(output, mapped(found, jsonOf));
      const heading = ["NAMESPACE", "LAYOUT", "LONGEST WINDOW", "QUARANTINE"];
      if (await longTable(output, heading, mapped(found, rowOf))) return;
      await output.line("No namespace.");
    });
  },
};

function rowOf({ namespace, info }: ListedNamespace): string[] {
  if (isSnowleaseError(info)) return [namespace, info.code, "-", "-"];
  const { layout, maxWindow, quarantineUntil } = info;
  const preset = presetNames.find((name) => presets[name] === layout);
  const until = quarantineUntil === undefined ? "-" : timeText(quarantineUntil);
  return [namespace, preset ?? layout, `${maxWindow} ms`, until];
}

function jsonOf({ namespace, info }: ListedNamespace): object {
  if (!isSnowleaseError(info)) return { namespace, ...info };
  return { namespace, error: { code: info.code, message: info.message } };
}
