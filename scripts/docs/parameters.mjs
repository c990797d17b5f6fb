import * as stores from "../../dist/registries/stores.js";
import { table } from "./table.mjs";

/** Pages whose name is not the name of the store. */
const names = { http: "daemon", mysql: "sql", oracle: "sql", postgres: "sql" };

/** The pages, each with all parameters of its stores. */
export const parameterPages = [...parametersByPage()].map(([name, parameters]) => ({
  page: `docs/registries/${name}.md`,
  parameters: () => tableOf(parameters),
}));

function parametersByPage() {
  const pages = new Map();
  for (const { kind, parameters } of Object.values(stores)) {
    const name = names[kind] ?? kind;
    if (parameters !== undefined) pages.set(name, { ...pages.get(name), ...parameters });
  }
  return pages;
}

function tableOf(parameters) {
  const rows = Object.entries(parameters).map(([name, { default: byDefault, meaning }]) => {
    return [`\`${name}\``, byDefault === undefined ? "none" : `\`${byDefault}\``, meaning];
  });
  return table([["parameter of the URL", "default", "meaning"], ...rows]);
}
