import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { lendLease } from "../../src/lend.ts";
import { snowlease } from "../../src/snowlease.ts";
import { cliFile, type CliResult, Sandbox } from "../support/cli.ts";

const library = fileURLToPath(new URL("../../dist/index.js", import.meta.url));

/** Two hosts behind one bridge: a home each, and the same address. */
const addresses = { SNOWLEASE_IP: "172.17.0.2" };

/** A program that calls `snowlease` with these options, written as in source, and prints what it makes in a second. */
function program(options: string): string[] {
  const script = `
    import { snowlease } from ${JSON.stringify(library)};
    const ids = await snowlease(${options});
    const made = [];
    for (const end = Date.now() + 1000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 1))) {
      for (let i = 0; i < 20; i++) made.push(await ids.nextAsync());
    }
    await ids.close();
    process.stdout.write(made.join("\\n") + "\\n");
  `;
  return ["--input-type=module", "-e", script];
}

type Env = Readonly<Record<string, string>>;

/** Starts one on each of two hosts at once, with this command line before it. */
function onTwoHosts(options: string, env: Env = {}, before: readonly string[] = []): Promise<CliResult[]> {
  const [command = "", ...args] = [...before, process.execPath, ...program(options)];
  const hosts = [new Sandbox(), new Sandbox()];
  const started = hosts.map((host) => host.started(spawn(command, args, host.surroundings({ ...addresses, ...env }))));
  return Promise.all(started.map(({ ended }) => ended));
}

function idsOf({ stdout }: CliResult): string[] {
  return stdout.split("\n").slice(0, -1);
}

/** How many IDs came more than once. */
function repeated(results: readonly CliResult[]): number {
  const ids = results.flatMap(idsOf);
  return ids.length - new Set(ids).size;
}

describe("a registry that was meant, and that an unset or misspelt variable leaves out", () => {
  test.each<[string, string, Env, string]>([
    ["an option that is undefined", "{ registry: process.env.REDIS_URL }", {}, "the option `registry`"],
    ["an option that is empty", "{ registry: '' }", {}, "the option `registry`"],
    ["an empty variable", "{}", { SNOWLEASE_REGISTRY: "" }, "SNOWLEASE_REGISTRY"],
    ["a misspelt variable", "{}", { SNOWLEASE_REGISTRI: "redis://127.0.0.1:1" }, "`SNOWLEASE_REGISTRY`"],
    ["a longer variable", "{}", { SNOWLEASE_REGISTRY_URL: "redis://127.0.0.1:1" }, "`SNOWLEASE_REGISTRY`"],
    ["a number that is undefined", "{ workerId: process.env.NUMBER }", {}, "the option `workerId`"],
    ["a datacenter that is undefined", "{ layout: 'twitter', datacenter: process.env.DC }", {}, "`datacenter`"],
  ])("%s ends both hosts' programs before an ID", async (_, options, env, named) => {
    const results = await onTwoHosts(options, env);
    expect(repeated(results)).toBe(0);
    for (const { code, stdout, stderr } of results) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("CONFIG_INVALID");
      expect(stderr).toContain(named);
    }
  });
});

test.each<[string, readonly string[], Env, string | undefined]>([
  ["a flag", ["--registry", ""], {}, undefined],
  ["a variable", [], { SNOWLEASE_REGISTRY: "" }, undefined],
  ["a config file", [], {}, '{"registry": ""}'],
])("an empty registry from %s ends a command before it claims", async (_, flags, env, file) => {
  const host = new Sandbox();
  if (file !== undefined) writeFileSync(join(host.work, "snowlease.json"), file);
  const before = host.files();
  for (const command of [["id"], ["assign", "--once"], ["exec"], ["daemon", "--listen", "127.0.0.1:0"]]) {
    const program = command[0] === "exec" ? ["--", "true"] : [];
    const { code, stdout, stderr } = await host.run([...command, ...flags, ...program], { env });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^snowlease: CONFIG_INVALID: .*registry.*\n$/i);
  }
  expect(host.files()).toEqual(before);
});

describe("with no registry at all", () => {
  const said =
    "No registry is named: the worker ID is the end of this host's address, leased in a file that no other host or user sees.";

  test("the worker ID is that of the address, and a program is warned once that no other host sees it", async () => {
    const host = new Sandbox();
    const twice = `{}); await snowlease({ namespace: "other" }`;
    const { ended } = host.started(spawn(process.execPath, program(twice), host.surroundings(addresses)));
    const result = await ended;
    expect(new Set(idsOf(result).map((id) => defaultLayout.decompose(BigInt(id)).workerId))).toEqual(new Set([2]));
    expect(result.stderr).toContain(`[SNOWLEASE_NO_REGISTRY] SnowleaseWarning: ${said}`);
    expect(result.stderr.split(said)).toHaveLength(2);
  });

  test("so is a caller of the command line, in one line; where Node is told to be quiet, it is", async () => {
    const host = new Sandbox();
    const { code, stderr } = await host.run(["id", "-n", "1"]);
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^snowlease: warning: .*\n$/) as string,
    });
    expect(stderr).toContain(said);
    const quiet = await host.run(["id", "-n", "1"], { env: { NODE_NO_WARNINGS: "1" } });
    expect(quiet).toMatchObject({ code: 0, stderr: "" });
    const named = await host.run(["id", "-n", "1", "--registry", host.registry]);
    expect(named).toMatchObject({ code: 0, stderr: "" });
  });

  test("`doctor` warns, and is content where one is named", async () => {
    const host = new Sandbox();
    const hosts = async (...flags: string[]): Promise<unknown> => {
      const { stdout } = await host.run(["doctor", "--json", ...flags]);
      const { findings } = JSON.parse(stdout) as { findings: { check: string; status: string }[] };
      return findings.find(({ check }) => check === "hosts")?.status;
    };
    expect(await hosts()).toBe("warn");
    expect(await hosts("--registry", host.registry)).toBeUndefined();
  });
});

describe("under `exec`", () => {
  const shared = (): string => `sqlite:${join(new Sandbox().work, "shared.db")}`;

  test.each([
    ["named by a flag", (registry: string) => ["--registry", registry, "--namespace", "orders"], {}],
    ["named in the URL's query", (registry: string) => ["--registry", `${registry}?namespace=orders`], {}],
    [
      "named by a flag over a variable",
      (registry: string) => ["--registry", registry, "--namespace", "orders"],
      { SNOWLEASE_NAMESPACE: "default" },
    ],
  ])("a program that names no namespace borrows that of the lease, %s", async (_, flags, env) => {
    const results = await onTwoHosts("{}", env, [process.execPath, cliFile, "exec", ...flags(shared()), "--"]);
    expect(repeated(results)).toBe(0);
    for (const result of results) {
      expect(result).toMatchObject({ code: 0, stderr: "" });
      expect(idsOf(result).length).toBeGreaterThan(100);
    }
  });

  test.each(["{ namespace: 'audit' }", "{ namespace: 'default' }"])(
    "a program that names another namespace, and no registry, is refused: %s",
    async (options) => {
      const flags = ["--registry", shared(), "--namespace", "orders"];
      const results = await onTwoHosts(options, {}, [process.execPath, cliFile, "exec", ...flags, "--"]);
      expect(repeated(results)).toBe(0);
      for (const { stdout, stderr } of results) {
        expect(stdout).toBe("");
        expect(stderr).toContain("CONFIG_INVALID");
        expect(stderr).toContain("a lease of namespace `orders`");
        expect(stderr).toContain("SNOWLEASE_REGISTRY");
      }
    },
  );

  test("a program that names another namespace leases it in the registry that the environment names", async () => {
    const registry = shared();
    const flags = ["--registry", registry, "--namespace", "orders"];
    const env = { SNOWLEASE_REGISTRY: registry };
    const results = await onTwoHosts("{ namespace: 'audit' }", env, [
      process.execPath,
      cliFile,
      "exec",
      ...flags,
      "--",
    ]);
    expect(repeated(results)).toBe(0);
    for (const result of results) expect(idsOf(result).length).toBeGreaterThan(100);
  });
});

test("a child of `lendLease` that names no namespace borrows the one that is lent", async () => {
  const registry = `sqlite:${join(new Sandbox().work, "shared.db")}`;
  const lease = { registry, namespace: "orders", shared: true } as const;
  const lenders = [await snowlease(lease), await snowlease(lease)];
  const results = await Promise.all(
    lenders.map(async (ids) => {
      await using lender = await lendLease(ids);
      const host = new Sandbox();
      const surroundings = host.surroundings({ ...addresses, ...lender.env });
      const { ended } = host.started(spawn(process.execPath, program("{}"), surroundings));
      const result = await ended;
      await ids.close();
      return result;
    }),
  );
  expect(repeated(results)).toBe(0);
  for (const result of results) expect(idsOf(result).length).toBeGreaterThan(100);
});
