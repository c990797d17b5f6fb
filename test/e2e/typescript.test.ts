// Programs in TypeScript that use the package, by each usual way to find its types.

import { beforeAll, describe, expect, test } from "vitest";
import { example } from "../support/examples.ts";
import { toolchains } from "../support/toolchains.ts";
import { asTested, pack, sqlitePackages, UserProject } from "../support/user-project.ts";

const minutes = 60_000;
const strict = "--strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess";

/** By the names under which they are installed. */
const compilers = { "ts5.0": "npm:typescript@5.0.4", "ts5.9": "npm:typescript@5.9.3", typescript: "" };

interface Setting {
  readonly name: string;
  readonly flags: string;
  readonly file: string;
  /** What it is compiled to, where that can be run. */
  readonly made?: string;
  /** A compiler that has it no more. */
  readonly notIn?: string;
}

const settings: readonly Setting[] = [
  {
    name: "commonjs, node | CommonJS",
    flags: "--module commonjs --moduleResolution node",
    file: "main.ts",
    made: "main.js",
    notIn: "typescript",
  },
  { name: "node16 | CommonJS", flags: "--module node16", file: "main.cts", made: "main.cjs" },
  { name: "node16 | ES module", flags: "--module node16", file: "main.mts", made: "main.mjs" },
  { name: "nodenext | CommonJS", flags: "--module nodenext", file: "main.cts", made: "main.cjs" },
  { name: "nodenext | ES module", flags: "--module nodenext", file: "main.mts", made: "main.mjs" },
  { name: "esnext, bundler | ES module", flags: "--module esnext --moduleResolution bundler", file: "main.mts" },
];

/** All entries. */
const main = `import { isSnowleaseError, lendLease, type Lease, snowlease, type SnowleaseOptions } from "snowlease";
import { conformance } from "snowlease/conformance";
import { inOneStep } from "snowlease/store";
import { fakeClock, memoryRegistry } from "snowlease/testing";

export const others = [lendLease, conformance, inOneStep];
export async function main(options: SnowleaseOptions): Promise<void> {
  const clock = fakeClock();
  const ids = await snowlease({ ...options, registry: memoryRegistry({ clock }), clock });
  const lease: Lease = ids.lease;
  try {
    const id: bigint = ids.next();
    console.log(String(id), lease.workerId);
  } catch (error) {
    if (isSnowleaseError(error)) console.log(error.code, error.details.retryAfterMs);
  } finally {
    await ids.close();
  }
}
void main({ namespace: "orders" });
`;

test("docs/toolchains.md has a row of each", () => {
  expect(toolchains("TypeScript")).toEqual(settings.map(({ name }) => name));
});

let file: string;
beforeAll(async () => {
  ({ file } = await pack());
}, minutes);

describe.each(["with", "without"])("a program %s @types/node compiles, its types too, and runs", (types) => {
  const app = new UserProject();

  beforeAll(async () => {
    const packages = Object.entries(compilers).map(([name, alias]) =>
      alias === "" ? asTested(name) : `${name}@${alias}`,
    );
    const typesOfNode = types === "with" ? [asTested("@types/node")] : [];
    await app.install("--ignore-scripts", file, ...packages, ...typesOfNode);
    for (const name of ["main.ts", "main.cts", "main.mts"]) app.write(name, main);
  }, 5 * minutes);

  describe.each(Object.keys(compilers))("by %s", (compiler) => {
    test.each(settings.filter(({ notIn }) => notIn !== compiler))("$name", async ({ flags, file, made }) => {
      const command = `node_modules/${compiler}/bin/tsc ${strict} --target es2022 --outDir out ${flags} ${file}`;
      await app.read("node", ...command.split(" "));
      if (made !== undefined) expect(await app.read("node", `out/${made}`)).toMatch(/^\d{18,19} 0\n$/);
    });
  });
});

describe("the examples compile in a project of their own", () => {
  const app = new UserProject({ SNOWLEASE_REGISTRY: "sqlite:registry.db" });

  beforeAll(async () => {
    const packages = ["typescript", "@types/node", "prom-client"].map(asTested);
    await app.install("--ignore-scripts", file, ...sqlitePackages, ...packages);
    for (const name of ["assigner.ts", "generator.ts", "journal.ts", "library.ts", "own-registry", "testing.ts"]) {
      app.copy(example(name), `src/${name}`);
    }
    for (const folder of ["src", "out"]) app.write(`${folder}/package.json`, '{ "type": "module" }');
  }, 5 * minutes);

  test.each([
    ["by Node's rules, and run", "--module nodenext --outDir out --rewriteRelativeImportExtensions"],
    ["by a bundler's rules", "--module esnext --moduleResolution bundler --noEmit --allowImportingTsExtensions"],
  ])("%s", async (_, flags) => {
    const files = "src/*.ts src/own-registry/*.ts";
    const tsc = "node node_modules/typescript/bin/tsc";
    await app.read("sh", "-c", `${tsc} ${strict} --target es2023 --types node ${flags} ${files}`);
    if (!flags.includes("--outDir")) return;
    for (const name of ["library", "testing"]) expect(await app.read("node", `out/${name}.js`)).not.toBe("");
  });
});
