import { optionTable } from "../../dist/config.js";
import { table } from "./table.mjs";

/** Every option, as src/options.ts has it. */
export function options() {
  const rows = optionTable.map(({ name, flag, env, scopes, default: byDefault, description }) => [
    `\`${name}\``,
    flag === undefined ? "" : `\`${flag}\` \`${env}\``,
    scopes.includes("url") ? "yes" : "",
    byDefault,
    description,
  ]);
  return table([["option", "flag, environment", "in a URL", "default", "meaning"], ...rows]);
}
