import * as stores from "../../dist/registries/stores.js";
import { table } from "./table.mjs";

/** The pages whose name is not the store's. */
const names = { http: "daemon", mysql: "sql", oracle: "sql", postgres: "sql" };

/** The page of each store that has parameters of its own. */
export const parameterPages = Object.values(stores)
  .filter(({ parameters }) => parameters !== undefined)
  .map((store) => ({
    page: `docs/registries/${names[store.kind] ?? store.kind}.md`,
    parameters: () => tableOf(store),
  }));

function tableOf({ parameters }) {
  const rows = Object.entries(parameters).map(([name, { default: byDefault, meaning }]) => {
    return [`\`${name}\``, byDefault === undefined ? "none" : `\`${byDefault}\``, meaning];
  });
  return table([["parameter of the URL", "default", "meaning"], ...rows]);
}
