// Puts the packages that src/ imports into the compiled program. A service that installs Snowlease installs no other package but the
// driver of its store. Drivers are not put there, since src/ imports them by `import()`.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";

/**
 * Packages that stay in CommonJS. Some `require` modules of Node, which an ES module cannot do. zod stays, so that `cjs/` needs no second
 * copy of it.
 */
const commonJs = new Set(["pino", "prom-client", "zod"]);

/**
 * Makes a file in `vendor/` for each package that the compiled files import, with the parts that they use. Then the compiled files import
 * that file.
 * @param root the folder of package.json, absolute.
 * @param target the folder of the compiled files, in `root`.
 * @param files the compiled files, by their paths in `root`.
 */
export function vendor(root, target, files) {
  const imports = importsOf(files);
  const folder = join(root, target, "vendor");
  mkdirSync(folder);
  for (const [name, names] of imports) {
    writeFileSync(join(folder, fileOf(name)), `export { ${[...names].join(", ")} } from ${JSON.stringify(name)};\n`);
  }
  const entries = [...imports.keys()];
  const inputs = [
    // Code that two packages use is there once.
    ...bundle(
      folder,
      entries.filter((name) => !commonJs.has(name)),
      { format: "esm", splitting: true },
    ),
    ...bundle(
      folder,
      entries.filter((name) => commonJs.has(name)),
      { format: "cjs" },
    ),
  ];
  for (const file of files) importFrom(join(target, "vendor"), file);
  writeFileSync(join(folder, "LICENSES.txt"), licences(folder, inputs));
}

const pattern = /^import ([^;]+?) from "([^."][^"]*)";$/gm;
const isNodes = (name) => name.startsWith("node:");
const byName = (a, b) => (a < b ? -1 : 1);

/** The names that are imported from each package; `default` for a whole package in CommonJS. */
function importsOf(files) {
  const imports = new Map();
  for (const file of files) {
    for (const [, what, name] of readFileSync(file, "utf8").matchAll(pattern)) {
      if (isNodes(name)) continue;
      if (!/^(?:\w+|\{[^}]*\})$/.test(what))
        throw new Error(`${file} imports ${what} from ${name}: import names, or all of it by one.`);
      const names = what.startsWith("{")
        ? what
            .slice(1, -1)
            .split(",")
            .map((each) => each.trim().split(" ")[0])
        : ["default"];
      imports.set(name, new Set([...(imports.get(name) ?? []), ...names].toSorted(byName)));
    }
  }
  return imports;
}

function fileOf(name) {
  return `${name.replace("@", "").replaceAll("/", "-")}.${commonJs.has(name) ? "cjs" : "js"}`;
}

function importFrom(folder, file) {
  const text = readFileSync(file, "utf8");
  const changed = text.replace(pattern, (whole, what, name) => {
    if (isNodes(name)) return whole;
    const path = relative(dirname(file), join(folder, fileOf(name))).replaceAll("\\", "/");
    return `import ${what} from "${path.startsWith(".") ? path : `./${path}`}";`;
  });
  if (changed !== text) writeFileSync(file, changed);
}

/** Replaces the entries by bundles of their exports. Returns the files of the packages that are in them. */
function bundle(folder, names, format) {
  // esbuild is there only after the dependencies are installed.
  const require = createRequire(import.meta.url);
  const { metafile } = require("esbuild").buildSync({
    ...format,
    // Comments have paths relative to this folder. The name of the folder itself differs each time.
    absWorkingDir: folder,
    entryPoints: names.map(fileOf),
    outdir: ".",
    outExtension: format.format === "cjs" ? { ".js": ".cjs" } : {},
    chunkNames: "shared-[hash]",
    allowOverwrite: true,
    bundle: true,
    platform: "node",
    target: "node20",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
  });
  for (const output of Object.keys(metafile.outputs)) {
    if (format.format === "esm" && readFileSync(join(folder, output), "utf8").includes("Dynamic require of")) {
      throw new Error(`${output} requires a module of Node: add its package to \`commonJs\` in scripts/vendor.mjs.`);
    }
  }
  return Object.keys(metafile.inputs);
}

/** The authors and the licences of the code in `vendor/`. */
function licences(folder, inputs) {
  const folders = inputs.map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  const texts = [...new Set(folders.filter((each) => each !== undefined))].toSorted(byName).map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, path, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, path, "LICENSE"), "utf8").trim()}\n`;
  });
  return `The files in this folder were made of the packages below.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}
