import { readPage } from "./markdown.ts";

/** The rows of a section of docs/toolchains.md, by their first two cells: `webpack | ESM`. */
export function toolchains(section: string): readonly string[] {
  const [, text = ""] = readPage("docs/toolchains.md").text.split(`\n## ${section}\n`);
  const [own = ""] = text.split("\n## ");
  const rows = own.split("\n").filter((line) => line.startsWith("| ") && !/^\| (?:-|bundler|`module`)/.test(line));
  return rows.map((row) => row.replaceAll("`", "").split(" | ").slice(0, 2).join(" | ").slice(2));
}
