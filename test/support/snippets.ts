import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as library from "snowlease";
import { type Block, root } from "./markdown.ts";

/** What a snippet may leave to its reader. A value of this table is used if the snippet uses its name and does not declare it. */
const given: Readonly<Record<string, string>> = {
  registry: 'const registry = "sqlite:./registry.db";',
  password: 'const password = "open-sesame";',
  buffer: "const buffer = Buffer.alloc(65_536);",
};

/** A folder in which `snowlease` and the drivers can be imported, and the examples are at hand. */
export function snippetFolder(folder: string): string {
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  for (const name of ["ioredis", "pg", "mysql2", "prom-client", "@types"]) {
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
  symlinkSync(root, join(folder, "node_modules/snowlease"));
  symlinkSync(join(root, "examples"), join(folder, "examples"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: strict, include: ["*.ts", "*.mts", "*.mjs"] }),
  );
  return folder;
}

const strict = {
  target: "es2023",
  lib: ["es2023", "esnext.disposable", "dom"],
  types: ["node"],
  module: "nodenext",
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  allowImportingTsExtensions: true,
  allowJs: true,
  checkJs: true,
};

/** Writes a block as a program, with the imports and values that it leaves out. Returns the name of its file. */
export function writeSnippet(folder: string, { where, language, text, info }: Block): string {
  const bare = text.replace(/\/\/.*$/gm, "").replace(/"[^"\n]*"/g, '""');
  const uses = (name: string): boolean => new RegExp(`(?<![.\\w])${name}\\b(?!\\s*:)`).test(bare);
  const declares = (name: string): boolean =>
    new RegExp(`(?:const|let|function|class) ${name}\\b|import [^;]*\\b${name}\\b[^;]*;`).test(bare);
  const imports = Object.keys(library).filter((name) => uses(name) && !declares(name));
  const values = Object.entries(given).filter(([name]) => uses(name) && !declares(name));
  const program = [
    ...(imports.length === 0 ? [] : [`import { ${imports.join(", ")} } from "snowlease";`]),
    ...(info.has("exact") ? ['import { inspect } from "node:util";', shows] : []),
    ...values.map(([, line]) => line),
    info.has("exact") ? exact(text) : text,
    "export {};",
  ];
  const name = `${where.replace(/\W+/g, "-")}.${language === "js" ? "mjs" : "ts"}`;
  writeFileSync(join(folder, name), `${program.join("\n")}\n`);
  return name;
}

const shows = `function shows(value: unknown, told: string): void {
  const seen = inspect(value, { breakLength: Infinity }).replaceAll("'", '"');
  if (seen !== told) throw new Error(\`The page says \${told}, and it is \${seen}\`);
}`;

/** Compares both sides of `expression; // value` with a literal. Text after a colon is a remark. */
function exact(text: string): string {
  return text.replace(/^([^\n/]+?); \/\/ ("[^"]*"|\d[\w.]*|true|false|\{[^\n]*\})(?=$|[:;, ])/gm, (_, code, told) => {
    return `shows(${code}, ${JSON.stringify(told)});`;
  });
}
