import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize, relative } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resolveConfig } from "../../src/config/config.ts";
import { Sandbox } from "../support/cli.ts";
import { anchorsOf, documentation, linksOf, prose, readPage, root } from "../support/markdown.ts";
import { snippetFolder, writeSnippet } from "../support/snippets.ts";

const run = promisify(execFile);
const pages = documentation();
const blocks = pages.flatMap((page) => page.blocks);
const others = [
  "CONTRIBUTING.md",
  "clients/go/README.md",
  "clients/java/README.md",
  "clients/python/README.md",
  "clients/vectors/README.md",
  "examples/README.md",
  "prove/README.md",
  "spec/README.md",
  "test/bugs.md",
].map(readPage);

/** Why a block is not run here. The list is to stay short, and each to be a good reason. */
const unrun: Readonly<Record<string, string>> = {
  setup: "npm start and npm test themselves: what they start is run by other tests, and npm test runs this one",
  help: "the examples of --help: cli-usage reads them, and each names a registry of its own",
  npm: "installs packages",
  bench: "takes half an hour",
  copy: "needs a copy of a database: cli-separate and the test of separated copies run the same commands",
  fleet: "needs the hosts of a fleet: cli-migrate and the migration tests run the same steps",
  host: "needs a machine of that name, with certificates: http-tls and cli-access run the same steps",
  oracle: "no Oracle can be had here",
  programs: "needs programs that are not installed here",
  excerpt: "an excerpt of an example that is compiled and run as a whole",
};

test("every block is run, compiled or read, or says why not", () => {
  const kinds = ["ts", "js", "sh", "console", "json", "yaml", "text"];
  for (const { where, language, info } of blocks) {
    expect(kinds, where).toContain(language);
    for (const key of info.keys()) expect(["norun", "with", "exact"], where).toContain(key);
    const why = info.get("norun");
    if (why !== undefined) expect(Object.keys(unrun), where).toContain(why);
  }
  const counts = Object.keys(unrun).map((why) => [why, blocks.filter(({ info }) => info.get("norun") === why).length]);
  for (const [why, count] of counts) expect(count, `blocks with norun=${why}`).toBeGreaterThan(0);
  // Others run the examples and what these are excerpts of.
  const told = blocks.filter(({ info }) => info.has("norun") && !["help", "excerpt"].includes(info.get("norun") ?? ""));
  expect(told.length, told.map(({ where }) => where).join(", ")).toBeLessThanOrEqual(17);
});

describe("pages", () => {
  const read = new Map([...pages, ...others].map((page) => [page.path, page]));

  test.each([...pages, ...others])("$path links to what is there", (page) => {
    for (const target of linksOf(page)) {
      if (/^https?:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? page.path : normalize(join(dirname(page.path), file));
      expect(existsSync(join(root, path)), `${page.path} links to ${target}`).toBe(true);
      if (anchor === undefined) continue;
      if (!read.has(path)) read.set(path, readPage(path));
      expect(anchorsOf(read.get(path) ?? page), `${page.path} links to ${target}`).toContain(anchor);
    }
  });

  test.each(pages.filter(({ path }) => path !== "README.md"))("$path begins with whom it is for", ({ text }) => {
    expect(text).toMatch(/^# [^\n]+\n\nFor [^.]+[.:]/);
    expect(
      text.split("\n").filter((line) => line.startsWith("# ") && !line.startsWith("# HELP")).length,
    ).toBeGreaterThan(0);
  });

  test("docs/README.md leads to every page", () => {
    const index = pages.find(({ path }) => path === "docs/README.md");
    const linked = new Set((index === undefined ? [] : linksOf(index)).map((target) => target.split("#")[0]));
    for (const { path } of pages) if (path !== index?.path) expect([...linked]).toContain(relative("docs", path));
  });

  test("the README is read in two minutes", () => {
    const [readme = { text: "" }] = pages;
    const words = readme.text.replace(/```[\s\S]*?```/g, "").match(/[\w'-]+/g) ?? [];
    expect(words.length).toBeLessThan(600);
  });

  test("pictures have text for those who do not see them, and none needs anything from elsewhere", () => {
    for (const page of pages) {
      for (const [, alt = "", target = ""] of prose(page).matchAll(/!\[([^\]]*)\]\(([^)]+)\)/g)) {
        expect(alt.length, `${page.path}: ${target}`).toBeGreaterThan(40);
        const picture = readFileSync(join(root, dirname(page.path), target), "utf8");
        expect(picture).toMatch(/<title[\s\S]*<desc[\s\S]*prefers-color-scheme: dark/);
        expect(picture.replace('xmlns="http://www.w3.org/2000/svg"', "")).not.toMatch(/https?:/);
        expect(statSync(join(root, dirname(page.path), target)).size).toBeLessThan(20_000);
      }
    }
  });
});

test("excerpts are what the example says", () => {
  const folders = ["own-registry", "nats-registry", "restarts", "databases"].map((name) =>
    join(root, "examples", name),
  );
  const example = folders.flatMap((folder) =>
    readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8")),
  );
  const lines = new Set(example.flatMap((text) => text.split("\n").map((line) => line.trim())));
  for (const { where, text } of blocks.filter(({ info }) => info.get("norun") === "excerpt")) {
    for (const line of text.split("\n")) if (line.trim() !== "…") expect(lines, where).toContain(line.trim());
  }
});

describe("TypeScript", () => {
  const code = blocks.filter(
    ({ language, info }) => ["ts", "js"].includes(language) && info.get("norun") !== "excerpt",
  );
  let folder: string;
  beforeAll(() => {
    folder = snippetFolder(mkdtempSync(join(tmpdir(), "snowlease-docs-")));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("every block compiles as it stands, against the published types", async () => {
    const files = new Map(code.map((block) => [writeSnippet(folder, block), block.where]));
    const { stdout } = await run(join(root, "node_modules/.bin/tsc"), ["-p", "."], { cwd: folder }).catch(
      (error: unknown) => {
        return error as { stdout: string };
      },
    );
    const told = stdout.replace(/^([\w-]+\.ts)/gm, (file: string) => files.get(file) ?? file);
    expect(told).toBe("");
  });
});

describe("data", () => {
  test.each(blocks.filter(({ language }) => language === "json"))(
    "$where is JSON, and what it is for takes it",
    (block) => {
      const value: unknown = JSON.parse(block.text);
      if (!block.info.has("exact")) return;
      const sandbox = new Sandbox();
      writeFileSync(join(sandbox.work, "snowlease.json"), JSON.stringify(value));
      expect(() => resolveConfig({ flags: {}, env: {}, cwd: sandbox.work })).not.toThrow();
    },
  );

  test.runIf(blocks.some(({ language }) => language === "yaml"))("what is YAML can be read", () => {
    for (const { language, text } of blocks) if (language === "yaml") expect(parse(text)).toBeTypeOf("object");
  });
});
