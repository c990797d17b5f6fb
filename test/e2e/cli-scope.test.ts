import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { snowlease } from "../../src/index.ts";
import { cliFile, Sandbox, until } from "../support/cli.ts";

const whose = `the processes of user ${userInfo().username} on host \`${hostname()}\` that use the file`;

test("two working folders with one relative path are two registries, and each process says which it has", async () => {
  const sandbox = new Sandbox();
  const told: string[][] = [];
  const args = ["exec", "--registry", "sqlite:./registry.db", "--", "sh", "-c", "echo $SNOWLEASE_WORKER_ID"];
  for (const name of ["one", "two"]) {
    const cwd = join(sandbox.work, name);
    mkdirSync(cwd);
    for (let round = 0; round < 2; round++) {
      const child = spawn(process.execPath, [cliFile, ...args], { ...sandbox.surroundings(), cwd });
      const running = sandbox.started(child);
      expect(await running.ended).toEqual({ code: 0, stdout: `${round}\n`, stderr: "" });
      told.push([...running.notices]);
    }
  }
  const [first, again, second] = told;
  const file = (name: string): string => join(sandbox.work, name, "registry.db");
  const scope = (worker: number, name: string): string =>
    `snowlease: Worker ${worker}. Worker IDs are unique among ${whose} ${file(name)}.\n`;
  expect(first?.toSorted()).toEqual([
    scope(0, "one"),
    `snowlease: warning: Made the registry file ${file("one")}, since there was none. Programs on other files get the same worker IDs; give all of them this path.\n`,
  ]);
  expect(again).toEqual([scope(1, "one")]);
  expect(second).toContain(scope(0, "two"));
});

test("a daemon on a file says who shares it, and what a daemon on another host needs", async () => {
  const sandbox = new Sandbox();
  const { daemon, url } = await sandbox.serve();
  await until(() => daemon.stderr.includes('"event":"scope"'));
  const line = daemon.stderr.split("\n").find((one) => one.includes('"event":"scope"')) ?? "";
  const file = join(sandbox.work, "registry.db");
  expect((JSON.parse(line) as { msg: string }).msg).toBe(
    `Worker IDs are unique among all who use this daemon, and ${whose} ${file}. A daemon on another host needs a \`pool\` of its own, which no other daemon has, or a registry that all daemons reach.`,
  );
  const { stdout } = await sandbox.run(["doctor", "--registry", url]);
  expect(stdout).toMatch(
    new RegExp(
      `^ok +scope +Worker IDs are unique among all who use the daemon ${url}, and the processes .* that use the file ${file}\\.$`,
      "m",
    ),
  );
});

test("a program is told with the event `scope`", async () => {
  const sandbox = new Sandbox();
  const ids = await snowlease({ registry: sandbox.registry });
  const text = await new Promise((resolve) => void ids.lease.on("scope", (event) => resolve(event.text)));
  expect(text).toBe(`Worker IDs are unique among ${whose} ${join(sandbox.work, "registry.db")}.`);
  await ids.close();
});
