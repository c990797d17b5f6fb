/** The form of a namespace's name, which is part of the names of keys, tables and objects in every store. */
export const namespaceForm = "[a-z][a-z0-9_]{0,31}";
export const namespacePattern: RegExp = new RegExp(`^${namespaceForm}$`);

/** What a name has to be, with the most similar valid name. The text follows "Expected `namespace`". */
export function namespaceRule(name: unknown): string {
  const near = typeof name === "string" ? name.toLowerCase().replace(/[-. ]/g, "_") : "";
  return `to match ${namespaceForm}${namespacePattern.test(near) ? `, such as \`${near}\`` : ""}`;
}
