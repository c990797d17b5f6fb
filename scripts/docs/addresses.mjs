import * as stores from "../../dist/registries/stores.js";
import { table } from "./table.mjs";

/** What the addresses of each scheme may list. Schemes with the same rules share a row. */
export function addressTable() {
  const rows = new Map();
  for (const { schemes } of Object.values(stores)) {
    for (const [scheme, { list, insteadOfList }] of Object.entries(schemes)) {
      const text = list !== undefined ? `yes: ${list}` : insteadOfList !== undefined ? `no: ${insteadOfList}` : "no";
      rows.set(text, [...(rows.get(text) ?? []), `\`${scheme}:\``]);
    }
  }
  return table([
    ["scheme", "several addresses, separated by commas"],
    ...[...rows].map(([text, schemes]) => [schemes.join(", "), text]),
  ]);
}

/** Which schemes have other spellings. */
export function aliasSentence() {
  const all = Object.values(stores).flatMap(({ aliases = {} }) => Object.entries(aliases));
  const texts = all.map(([alias, scheme]) => `\`${alias}:\` as \`${scheme}:\``);
  return `Read, too: ${texts.join(", ")}.`;
}
