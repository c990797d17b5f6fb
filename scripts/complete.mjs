// Makes the published program from the compiled sources. It contains everything that it needs, and nothing else.

import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules, createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { filesIn } from "./files.mjs";
import { vendor } from "./vendor.mjs";

/**
 * @param root the folder of package.json, absolute.
 * @param target the folder of the compiled files, in `root`.
 */
export function complete(root, target) {
  embedSql(target);
  const files = filesIn(target);
  const scripts = files.filter((file) => file.endsWith(".js"));
  vendor(root, target, scripts);
  const { exports, peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const entries = Object.values(exports).map((entry) => resolve(target, relative("dist", entry.default)));
  // The other declarations name packages that are not installed where the package is installed.
  const types = reachedFrom(entries, ".d.ts");
  for (const file of files) if (!scripts.includes(file) && !types.has(resolve(file))) rmSync(file);
  for (const file of types) declareDisposable(file);
  makeCommonJs(target, reachedFrom(entries, ".js"), types);
  checkImports(target, Object.keys(peerDependencies));
}

/** Replaces the module that reads `sql/` by one that contains its files, since a bundle has no such folder. */
function embedSql(target) {
  const files = filesIn("sql").map((file) => [relative("sql", file).replaceAll("\\", "/"), readFileSync(file, "utf8")]);
  const lines = files.toSorted(([a], [b]) => (a < b ? -1 : 1)).map((file) => `  ${JSON.stringify(file)},`);
  const module = `// Made by the build, of sql/.
const texts = new Map([
${lines.join("\n")}
]);
export function readSql(file) {
  return texts.get(file);
}
`;
  writeFileSync(join(target, "registries/sql-files.js"), module);
}

/** The files that a program reaches by imports if it imports the package. */
function reachedFrom(entries, extension) {
  const found = new Set(entries.map((file) => file.replace(/\.js$/, extension)));
  for (const file of found) {
    for (const [, path] of readFileSync(file, "utf8").matchAll(/(?:from|import\() ?"(\.[^"]+\.[jt]s)"/g)) {
      found.add(resolve(dirname(file), path.replace(/\.[jt]s$/, extension)));
    }
  }
  return found;
}

/** Declares types that a compiler has only with the types of Node, or from version 5.2 on for a newer target. */
function declareDisposable(file) {
  const text = readFileSync(file, "utf8");
  if (!/asyncDispose|AsyncDisposable/.test(text)) return;
  const declaration = `declare global {
    interface SymbolConstructor {
        readonly asyncDispose: unique symbol;
    }
    interface AsyncDisposable {
        [Symbol.asyncDispose](): PromiseLike<void>;
    }
}
`;
  writeFileSync(file, text + declaration);
}

/**
 * Makes the library a second time, in `cjs/`, for programs whose `require` takes no ES module: Jest, and Node before 22.12. Node and
 * bundlers whose `require` takes an ES module load the same one for both ways to import it. `module-sync` in package.json says so.
 */
function makeCommonJs(target, scripts, types) {
  const folder = resolve(target, "cjs");
  const there = (file) => join(folder, relative(target, file));
  const require = createRequire(import.meta.url);
  require("esbuild").buildSync({
    entryPoints: [...scripts],
    outbase: target,
    outdir: folder,
    format: "cjs",
    platform: "node",
    target: "node20",
    charset: "utf8",
    // Jest has no `import()`.
    supported: { "dynamic-import": false },
    logLevel: "error",
  });
  // Files beside the program, and packages in CommonJS, are not copied.
  for (const file of scripts) {
    const from = dirname(there(file));
    const path = (name) => JSON.stringify(relative(from, resolve(dirname(file), name)).replaceAll("\\", "/"));
    const url = `require("node:url").pathToFileURL(require("node:path").join(__dirname, ${path(file)})).href`;
    const text = readFileSync(there(file), "utf8")
      .replace("const import_meta = {};", `const import_meta = { url: ${url} };`)
      // A module of Snowlease has its own exports and no others.
      .replaceAll(/__toESM\((require\("\.[^"]+"\))(?:, 1)?\)/g, "$1")
      .replaceAll(/\s*\/\* webpackIgnore: true \*\/\s*/g, "")
      // If a driver is not installed, bundlers leave it out only if its `require` is directly in a `try`, and not in a function there.
      .replaceAll(/Promise\.resolve\(\)\.then\(\(\) => (__toESM\(require\("[^."][^"]*"\s*\)(?:, 1)?\))\)/g, "$1")
      // A file whose name is known only at run time may be an ES module or CommonJS.
      .replaceAll(
        /Promise\.resolve\(\)\.then\(\(\) => __toESM\(require\((\w+\([^"]+?\.href\s*\))\)(?:, 1)?\)\)/g,
        "import($1)",
      )
      .replaceAll(/require\("(\.[^"]+\.cjs)"\)/g, (_, name) => `require(${path(name)})`);
    writeFileSync(there(file), text);
  }
  for (const file of types) cpSync(file, there(file));
  writeFileSync(join(folder, "package.json"), '{ "type": "commonjs" }\n');
}

/** Fails if a file imports a missing file, or a package that is neither compiled in nor a driver. */
function checkImports(target, drivers) {
  const pattern =
    /(?:^(?:import|export)\b(?:[^;"(=]*?\bfrom)? ?|\bimport\(\s*(?:\/\*.*?\*\/\s*)?|\brequire\()"([^"]+)"/gm;
  const vendored = join(target, "vendor");
  for (const file of filesIn(target)) {
    if (!file.endsWith(".js") || file.startsWith(vendored)) continue;
    const text = readFileSync(file, "utf8");
    if (/import_meta = \{\}|then\(\(\) => __toESM/.test(text))
      throw new Error(`${file} was compiled to what scripts/complete.mjs does not know.`);
    for (const [, name] of text.matchAll(pattern)) {
      const isThere = name.startsWith(".")
        ? existsSync(resolve(dirname(file), name))
        : builtinModules.includes(name.replace(/^node:/, "")) || drivers.includes(name);
      if (!isThere) throw new Error(`${file} imports ${name}, which an installed package does not have.`);
    }
  }
}
