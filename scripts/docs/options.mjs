import { optionTable } from "../../dist/config/options.js";
import { table } from "./table.mjs";

/** Every option of src/config/options.ts. */
export function options() {
  const rows = optionTable.map(({ name, flag, env, scopes, default: byDefault, description }) => [
    `\`${name}\``,
    flag === undefined ? "" : `\`${flag}\` \`${env}\``,
    scopes.includes("url") ? "yes" : "",
    takersOf(scopes),
    byDefault,
    description,
  ]);
  return table([["option", "flag, environment", "in a URL", "of", "default", "meaning"], ...rows]);
}

/** Which programs take an option: claims (commands and programs), the daemon, or programs alone. */
function takersOf(scopes) {
  const takers = [scopes.includes("cli") && "claim", scopes.includes("daemon") && "daemon"].filter(Boolean);
  return takers.length > 0 ? takers.join(", ") : "library";
}
