import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { freePort } from "../support/servers.ts";
import { root } from "../support/markdown.ts";

const run = promisify(execFile);

/** What docs/library.md names; `libsql` because Node 20 has no SQLite of its own. */
const packages = {
  jest: "30.5.2",
  libsql: "0.5.29",
  next: "16.4.6",
  react: "19.3.1",
  "react-dom": "19.3.1",
  typescript: "7.0.2",
  "@types/node": "20.19.43",
  webpack: "5.113.0",
};

const makesOne = `
  const ids = await snowlease({ registry: process.env.REGISTRY });
  console.log(String(ids.next()));
  await ids.close();`;
const asModule = `import { snowlease } from "snowlease";${makesOne}`;
const asCommonJs = `import { snowlease } from "snowlease";
async function main() {${makesOne}
}
void main();`;
const byImport = `async function main() {
  const { snowlease } = await import("snowlease");${makesOne}
}
void main();`;

/** The files of the programs. */
const files = {
  "package.json": JSON.stringify({ private: true }),
  "webpack/main.mjs": asModule,
  "webpack/webpack.mjs": `import webpack from "webpack";
const path = import.meta.dirname;
const settings = {
  context: path,
  entry: "./main.mjs",
  target: "node20",
  mode: "production",
  externals: { snowlease: "node-commonjs snowlease" },
  output: { path, filename: "out.cjs" },
};
webpack(settings, (error, result) => {
  if (error ?? result.hasErrors()) throw error ?? new Error(result.toString());
});`,
  "typescript/common.cts": asCommonJs,
  "typescript/imported.cts": byImport,
  "jest/package.json": JSON.stringify({ jest: { testMatch: ["**/*.test.*"] } }),
  "jest/module.test.mjs": `import { snowlease } from "snowlease";
test("an ES module makes IDs", async () => {${makesOne}
});`,
  "jest/common.test.js": `test("a CommonJS module makes IDs", async () => {
  const { snowlease } = await import("snowlease");${makesOne}
});`,
  "next/package.json": JSON.stringify({ private: true }),
  "next/next.config.mjs": `export default { serverExternalPackages: ["snowlease"] };`,
  "next/app/layout.js": `export default ({ children }) => <html><body>{children}</body></html>;`,
  "next/app/id/route.js": `import { snowlease } from "snowlease";
let ids;
export const dynamic = "force-dynamic";
export async function GET() {
  ids ??= snowlease({ registry: process.env.REGISTRY });
  return new Response(String((await ids).next()));
}`,
};

const folder = mkdtempSync(join(tmpdir(), "snowlease-frameworks-"));
const at = (name: string): string => join(folder, name);
const options = (name: string): { cwd: string; env: NodeJS.ProcessEnv } => ({
  cwd: at(name),
  env: { ...process.env, REGISTRY: `sqlite:${at("registry.db")}`, NEXT_TELEMETRY_DISABLED: "1", CI: "1" },
});

/** A program of an installed package. */
const program = (path: string): string => at(join("node_modules", path));

beforeAll(async () => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(at(name)), { recursive: true });
    writeFileSync(at(name), text);
  }
  // A link would be followed to a folder that a bundler does not look into.
  const { stdout } = await run("npm", ["pack", "--silent", "--ignore-scripts", root], { cwd: folder });
  const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  const wanted = Object.entries(packages).map(([name, version]) => `${name}@${version}`);
  await run("npm", ["install", ...quiet, stdout.trim(), ...wanted], { cwd: folder });
}, 600_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("webpack leaves the package out, and the program makes IDs", async () => {
  await run(process.execPath, ["webpack.mjs"], options("webpack"));
  const { stdout } = await run(process.execPath, ["out.cjs"], options("webpack"));
  expect(stdout).toMatch(/^\d{19}\n$/);
});

test.each([
  ["imports it as nodenext", ["--module", "nodenext"], "common"],
  ["imports it as commonjs", ["--module", "commonjs", "--moduleResolution", "bundler"], "common"],
  ["awaits it as node16", ["--module", "node16"], "imported"],
])("a CommonJS module in TypeScript %s, and makes IDs", async (_, settings, name) => {
  const out = mkdtempSync(at("typescript/out-"));
  const compile = [...settings, "--target", "es2023", "--strict", "--types", "node", "--outDir", out, `${name}.cts`];
  await run(process.execPath, [program("typescript/bin/tsc"), ...compile], options("typescript"));
  const { stdout } = await run(process.execPath, [join(out, `${name}.cjs`)], options("typescript"));
  expect(stdout).toMatch(/^\d{19}\n$/);
});

test("TypeScript refuses an import of it in CommonJS as node16, as the page says", async () => {
  const compile = ["--module", "node16", "--target", "es2023", "--types", "node", "--noEmit", "common.cts"];
  const refused = run(process.execPath, [program("typescript/bin/tsc"), ...compile], options("typescript"));
  await expect(refused).rejects.toMatchObject({ stdout: expect.stringContaining("TS1479") as string });
});

test("Jest runs tests that make IDs", async () => {
  const command = ["--experimental-vm-modules", program("jest/bin/jest.js"), "--testTimeout=60000", "--ci"];
  const { stderr } = await run(process.execPath, command, options("jest"));
  expect(stderr).toContain("Tests:       2 passed, 2 total");
});

test("a route of Next.js makes IDs", async () => {
  const next = program("next/dist/bin/next");
  await run(process.execPath, [next, "build"], options("next"));
  const port = await freePort();
  const server = spawn(process.execPath, [next, "start", "--hostname", "127.0.0.1", "--port", String(port)], {
    ...options("next"),
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => ended(server));
  for await (const text of server.stdout) if (String(text).includes("Ready")) break;
  const ids = new Set<string>();
  for (let i = 0; i < 3; i++) {
    const answer = await fetch(`http://127.0.0.1:${port}/id`);
    ids.add(await answer.text());
  }
  expect([...ids]).toEqual(Array.from({ length: 3 }, () => expect.stringMatching(/^\d{19}$/) as string));
});

/** Stops a server. */
async function ended(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.kill();
  await once(server, "exit");
}
