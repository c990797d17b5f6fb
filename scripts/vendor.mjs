// `node scripts/vendor.mjs dist`: puts the packages that src/vendor/ names, with what they import, into dist/vendor/, in one file each. So a
// service installs no package but this one.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";

/** CommonJS among them asks for Node's modules by `require`, which an ES module does not have. */
const banner = `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`;

const folder = join(process.argv[2], "vendor");
bundle();

/** Replaces the modules of the folder by their bundles, and writes what their licences ask for. */
function bundle() {
  const modules = readdirSync(folder).filter((name) => name.endsWith(".js"));
  const { outputFiles, metafile } = buildSync({
    entryPoints: modules.map((name) => join(folder, name)),
    outdir: folder,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    metafile: true,
    legalComments: "none",
    write: false,
  });
  for (const { path, text } of outputFiles) {
    const needsRequire = text.includes(`__require("`);
    writeFileSync(path, needsRequire ? `${banner}\n${text}` : text);
  }
  const packages = new Set(Object.keys(metafile.inputs).flatMap((path) => packageOf(path) ?? []));
  writeFileSync(join(folder, "LICENSES.txt"), [...packages].toSorted().map(noticeOf).join("\n\n"));
}

/** The folder of the package that a file belongs to. */
function packageOf(path) {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

/** Its name, its version, and the text of its licence. */
function noticeOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = readdirSync(folder).filter((entry) => /^(?:licen[cs]e|copying|notice)/i.test(entry));
  if (files.length === 0) throw new Error(`${name} has no file with its licence (${license})`);
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
  return `${name} ${version}\n\n${texts.join("\n\n")}\n`;
}
