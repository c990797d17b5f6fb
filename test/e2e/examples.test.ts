import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { fakeClock, memoryRegistry } from "../../src/testing.ts";
import { snowlease } from "../../src/snowlease.ts";
import { Sandbox } from "../support/cli.ts";

const example = (name: string): string => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));

async function run(name: string, ...args: string[]): Promise<string> {
  const sandbox = new Sandbox();
  const child = spawn(process.execPath, [example(name), ...args], sandbox.surroundings());
  const { code, stdout, stderr } = await sandbox.started(child).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout;
}

test("login-token shows a session from login to clean-up", async () => {
  expect(await run("login-token.mjs")).toMatch(
    /^the browser keeps {2}[0-9a-zA-Z]{11}\.[\w-]{22}\nthe server knows {3}ada\na forged one is {4}nobody's\ntoo old {12}1 session\nafter the clean-up nobody\n$/,
  );
});

test("sharding: one shard has nearly all rows, and with spread its share", async () => {
  const [without = "", spread = "", range] = (await run("sharding.mjs", "4")).split("\n");
  const fullest = (line: string): number => Number(/has ([\d.]+) times/.exec(line)?.[1]);
  expect(fullest(without)).toBeGreaterThan(3);
  expect(fullest(spread)).toBeLessThan(1.5);
  expect(range).toBe("2026-01-01: WHERE id BETWEEN 1161316023849189376 AND 1161678411714789375");
});

interface Sessions {
  login(user: string): Promise<string>;
  user(token: string): string | undefined;
  logout(token: string): void;
  cleanUp(maxAge: number): bigint | number;
}

test("login tokens are the user's alone, and end by logout or by age", async () => {
  const { Sessions } = (await import(example("login-token.mjs"))) as { Sessions: new (ids: unknown) => Sessions };
  const clock = fakeClock({ start: Date.UTC(2026, 0, 1) });
  const ids = await snowlease({ registry: memoryRegistry({ clock }), clock, window: "10m" });
  onTestFinished(() => ids.close());
  const sessions = new Sessions(ids);

  const [ada, bob] = [await sessions.login("ada"), await sessions.login("bob")];
  expect([sessions.user(ada), sessions.user(bob)]).toEqual(["ada", "bob"]);
  const [id, secret] = ada.split(".") as [string, string];
  const others = [`${id}.${bob.split(".")[1]}`, `${bob.split(".")[0]}.${secret}`, id, secret, "", `${ada}A`, `A${ada}`];
  // Numbers that no ID is, in form and in size.
  for (const token of [
    ...others,
    `zzzzzzzzzzz.${secret}`,
    `0.${secret}`,
    `${id}.${secret.slice(1)}`,
    `0${id}.${secret}`,
  ]) {
    expect(sessions.user(token), token).toBeUndefined();
  }

  sessions.logout(bob);
  sessions.logout(bob);
  expect(sessions.user(bob)).toBeUndefined();

  await clock.advance(60_000);
  const eve = await sessions.login("eve");
  expect(Number(sessions.cleanUp(60_001))).toBe(0);
  await clock.advance(1);
  expect(Number(sessions.cleanUp(60_000))).toBe(1);
  expect([sessions.user(ada), sessions.user(eve)]).toEqual([undefined, "eve"]);
});
