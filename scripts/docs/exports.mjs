import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { table } from "./table.mjs";

/** The exports of an entry of the package, each with the first sentence of its comment. */
export function exportsOf(entry) {
  const rows = named(entry)
    .map(({ name, file }) => ({ name, ...declared(name, file) }))
    .toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || a.name.localeCompare(b.name));
  return table([
    ["export", "is", "meaning"],
    ...rows.map(({ name, kind, meaning }) => [`\`${name}\``, kind === "const" ? "value" : kind, meaning]),
  ]);
}

const read = (file) => readFileSync(file, "utf8");
const order = ["function", "class", "const", "interface", "type"];

/** The names of `export { a, type b } from "./x.ts"`, of `export type * from`, and of the file's own declarations. */
function named(entry) {
  const text = read(entry);
  const from = Array.from(text.matchAll(/^export (?:type )?\{([^}]*)\} from "([^"]+)";/gm), ([, names, file]) =>
    names
      .split(",")
      .map((name) => name.trim().replace(/^type /, ""))
      .filter((name) => name !== "")
      .map((name) => ({ name, file: join(dirname(entry), file) })),
  );
  const whole = Array.from(text.matchAll(/^export type \* from "([^"]+)";/gm), ([, file]) => {
    const path = join(dirname(entry), file);
    return declarations(path)
      .filter(({ kind }) => kind === "interface" || kind === "type")
      .map(({ name }) => ({ name, file: path }));
  });
  const own = declarations(entry).map(({ name }) => ({ name, file: entry }));
  return [...from.flat(), ...whole.flat(), ...own];
}

/** The declaration of a name, also if a file only exports it from another file. */
function declared(name, file) {
  const found = declarations(file).find((one) => one.name === name);
  const [, from] =
    new RegExp(`^(?:export|import) (?:type )?\\{[^}]*\\b${name}\\b[^}]*\\} from "([^"]+)";`, "m").exec(read(file)) ??
    [];
  if (found === undefined && from !== undefined) return declared(name, join(dirname(file), from));
  if (found === undefined) throw new Error(`${file} declares no ${name} with a comment before it`);
  return found;
}

function declarations(file) {
  const text = read(file);
  const pattern =
    /(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?export (?:declare )?(?:abstract )?(?:async )?(function|class|interface|type|const)\*? (\w+)/g;
  return Array.from(text.matchAll(pattern), ([, comment = "", kind, name]) => ({
    kind,
    name,
    meaning: firstSentence(comment),
  }));
}

/** The first sentence of a comment. If it is shorter than 18 characters, it takes further sentences. */
function firstSentence(comment) {
  const text = comment
    .replace(/^\s*\* ?/gm, "")
    .split(/\n\s*\n|@\w/)[0]
    .replace(/\s+/g, " ")
    .trim();
  return /^.{18,}?\.(?=\s|$)/.exec(text)?.[0] ?? text;
}
