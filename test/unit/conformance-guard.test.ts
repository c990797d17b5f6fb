import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** What stores of one kind share, and what stands around a registry: no registry by itself. */
const kinds = ["engine", "compare-and-set", "host-guard"];

/** Adapters are the other folders of src/registries, or the folders of their dialects. */
function adaptersIn(folder: string): string[] {
  const stores = foldersIn(folder).filter((name) => !kinds.includes(name));
  return stores.flatMap((name) => {
    const dialects = foldersIn(join(folder, name));
    return dialects.length > 0 ? dialects : [name];
  });
}

function foldersIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

function read(path: string): string {
  try {
    return readFileSync(join(root, path), "utf8");
  } catch {
    return "";
  }
}

/** Whether a test file hands this adapter to the contract, unconditionally. */
function runsConformance(text: string, adapter: string): boolean {
  const imports = /^import \{ runConformance \} from "\.\.\/support\/run-conformance\.ts";$/m.test(text);
  return imports && new RegExp(`^\\s*runConformance\\("${adapter}", `, "m").test(text);
}

describe("every registry is held to the contract", () => {
  const adapters = adaptersIn(join(root, "src/registries"));

  test("and there are registries", () => {
    expect(adapters).toContain("memory");
  });

  for (const adapter of adapters) {
    test(`${adapter} has a test/conformance/${adapter}.test.ts that runs it`, () => {
      expect(runsConformance(read(`test/conformance/${adapter}.test.ts`), adapter)).toBe(true);
    });
  }

  for (const adapter of adapters) {
    test(`${adapter} lacks no receipts, and only a daemon's are not the rule's text, and only a daemon separates no copies`, () => {
      const text = read(`test/conformance/${adapter}.test.ts`);
      expect(text.replaceAll('"plain-receipts":', "")).not.toMatch(/\breceipts"?: ["`]/);
      expect(text.includes('"plain-receipts":')).toBe(adapter === "daemon");
      expect(/\bcopies"?: ["`]/.test(text)).toBe(adapter === "daemon");
    });
  }

  test("a test file that is missing, names another registry or leaves the contract out does not count", () => {
    const text = read("test/conformance/memory.test.ts");
    expect(runsConformance(text, "memory")).toBe(true);
    expect(runsConformance(text, "redis")).toBe(false);
    expect(runsConformance(text.replace("runConformance(", "// runConformance("), "memory")).toBe(false);
    expect(runsConformance(read("test/conformance/missing.test.ts"), "memory")).toBe(false);
  });
});
