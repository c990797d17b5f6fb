// Checks rules besides the layers. The name of an exported type has one meaning in src/. Every file there is used by another one, or
// package.json exports or runs it. Each command that a page names exists, and so does each file of the gate. Each module of dist/ that a
// test, a benchmark or the proof suite names has a source.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
// This import ends with an error if a list of the gate names a missing file.
import "./gate.mjs";

const root = resolve(import.meta.dirname, "..");
const src = join(root, "src");
const files = readdirSync(src, { encoding: "utf8", recursive: true }).filter((name) => name.endsWith(".ts"));
const texts = new Map(files.map((name) => [name, readFileSync(join(src, name), "utf8")]));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const findings = [...namesTwice(), ...filesUnused(), ...commandsUnknown(), ...modulesUnknown()];
for (const finding of findings) console.error(finding);
process.exitCode = findings.length > 0 ? 1 : 0;

function namesTwice() {
  const places = new Map();
  const exported = new Set();
  for (const [file, text] of texts) {
    for (const [, isExported, name] of text.matchAll(/^(export )?(?:abstract )?(?:type|interface|class) (\w+)/gm)) {
      places.set(name, [...(places.get(name) ?? []), file]);
      if (isExported) exported.add(name);
    }
  }
  return [...places]
    .filter(([name, found]) => exported.has(name) && found.length > 1)
    .map(([name, found]) => `The type ${name} is declared in src/${found.join(" and src/")}: give each its own name.`);
}

function filesUnused() {
  const { exports, bin } = manifest;
  const entries = [...Object.values(exports).map((entry) => entry.default), ...Object.values(bin)];
  const used = new Set(entries.map((entry) => relative("dist", entry).replace(/\.js$/, ".ts")));
  for (const [file, text] of texts) {
    for (const [, specifier] of text.matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)) {
      used.add(relative(src, resolve(src, dirname(file), specifier)));
    }
    // The program of a process that the file forks.
    for (const [, program] of text.matchAll(/new URL\("(\.[^"]+)\.js", import\.meta\.url\)/g)) {
      used.add(relative(src, resolve(src, dirname(file), `${program}.ts`)));
    }
  }
  return files.filter((name) => !used.has(name)).map((name) => `No file imports src/${name}: delete it.`);
}

function commandsUnknown() {
  const pages = [
    "README.md",
    "CONTRIBUTING.md",
    ...["clients", "docs", "examples", "prove", "spec", "test"].flatMap(pagesOf),
  ];
  return pages.flatMap((page) =>
    [...readFileSync(join(root, page), "utf8").matchAll(/npm run ([\w:]+)/g)]
      .filter(([, name]) => !Object.hasOwn(manifest.scripts, name))
      .map(([command]) => `${page} names \`${command}\`, which package.json does not have.`),
  );
}

/** Finds modules of dist/ that do not exist. Their paths are plain texts, which no compiler checks. */
function modulesUnknown() {
  return ["bench", "prove", "test"].flatMap((folder) =>
    readdirSync(join(root, folder), { encoding: "utf8", recursive: true })
      .filter((name) => /\.m?ts$|\.mjs$/.test(name))
      .flatMap((name) => {
        const text = readFileSync(join(root, folder, name), "utf8");
        return [...text.matchAll(/(?<!\w\/)\bdist\/([\w./-]+)\.js\b/g)]
          .filter(([, path]) => !files.includes(`${path}.ts`))
          .map(([module]) => `${join(folder, name)} names ${module}, which no file of src/ becomes.`);
      }),
  );
}

function pagesOf(folder) {
  const names = readdirSync(join(root, folder), { encoding: "utf8", recursive: true });
  return names.filter((name) => name.endsWith(".md")).map((name) => join(folder, name));
}
