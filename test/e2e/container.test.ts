import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { base, DockerEngine, noEngine } from "../support/docker.ts";
import { freePort } from "../support/servers.ts";

const minutes = 60_000;
const root = join(import.meta.dirname, "../..");
const image = "snowlease";

if (noEngine !== undefined) console.warn(`NOT RUN: the container, since ${noEngine}.`);

describe.skipIf(noEngine !== undefined)("the daemon in a container", () => {
  let engine: DockerEngine;

  beforeAll(async () => {
    engine = await DockerEngine.start();
    await engine.make("base", base);
    const options = [
      "--network=host",
      "--build-arg=NODE=base",
      "--build-arg=INIT=base",
      "--file",
      join(root, "deploy/Dockerfile"),
      "--tag",
      image,
    ];
    await engine.run("build", "--quiet", ...options, root);
    return () => engine.stop();
  }, 15 * minutes);

  /** Starts a daemon as deploy/ does, on this machine's loopback; where it listens. */
  async function run(name: string): Promise<string> {
    const listen = `127.0.0.1:${await freePort()}`;
    const confined = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host"];
    const own = [`--env=SNOWLEASE_LISTEN=${listen}`, "--volume=leases:/var/lib/snowlease"];
    await engine.run("run", "--detach", `--name=${name}`, ...confined, ...own, image);
    const url = `http://${listen}`;
    for (let ready = false; !ready;) {
      ready = await fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
      const running = await engine.run("inspect", "--format={{.State.Running}}", name);
      if (running !== "true") throw new Error(await engine.run("logs", name));
    }
    return url;
  }

  async function makeIds(url: string): Promise<string[]> {
    const response = await fetch(`${url}/v1/default/ids`, {
      method: "POST",
      body: '{"count":1000}',
      headers: { "content-type": "application/json" },
    });
    return ((await response.json()) as { ids: string[] }).ids;
  }

  test(
    "makes IDs as a user of its own on a read-only file system, and gives its worker ID back when it is stopped",
    async () => {
      const url = await run("first");
      expect(await makeIds(url)).toHaveLength(1000);
      expect(await engine.run("exec", "first", "snowlease", "id", "-n", "1", "--registry", url)).toMatch(/^\d{19}$/);
      expect(await engine.run("exec", "first", "node", "-p", "process.getuid()")).toBe("1000");
      await engine.run("stop", "first");
      expect(await engine.run("inspect", "--format={{.State.ExitCode}}", "first")).toBe("0");
      expect(await engine.run("logs", "first")).toContain('"event":"released"');
    },
    5 * minutes,
  );

  test(
    "killed and started anew on the same volume makes no ID twice",
    async () => {
      const ids = await makeIds(await run("killed"));
      await engine.run("kill", "killed");
      ids.push(...(await makeIds(await run("anew"))));
      expect(new Set(ids).size).toBe(2000);
    },
    5 * minutes,
  );

  test(
    "reports that it is healthy",
    async () => {
      await run("checked");
      const health = (): Promise<string> => engine.run("inspect", "--format={{.State.Health.Status}}", "checked");
      let status = await health();
      while (status === "starting") status = await health();
      expect(status).toBe("healthy");
    },
    5 * minutes,
  );

  test(
    "leaves no zombies of programs whose parents have ended, as it would without its init",
    async () => {
      const wait = "setTimeout(() => undefined, 300)";
      // One that stays for a second is counted: each process that ends is one for a moment.
      const count = `
        const { readdirSync, readFileSync } = require("node:fs");
        const isZombie = (pid) => { try { return readFileSync("/proc/" + pid + "/stat", "utf8").includes(") Z "); } catch { return false; } };
        const areZombies = () => readdirSync("/proc").some((name) => /^\\d+$/.test(name) && isZombie(name));
        let looks = 120, seen = 0;
        const look = () => {
          seen = areZombies() ? seen + 1 : 0;
          if (seen === 20 || looks-- === 0) console.log(seen === 20 ? "a zombie" : "no zombie");
          else setTimeout(look, 50);
        };
        look();`;
      const program = ["sh", "-c", `(node -e "$1" &); exec node -e "$2"`, "sh", wait, count];
      const command = ["exec", "--registry", "memory:", "--", ...program];
      const run = (...how: string[]): Promise<string> =>
        engine.run("run", "--rm", "--network=none", "--env=TMPDIR=/dev/shm", ...how);
      expect(await run(image, ...command)).toContain("no zombie");
      expect(await run("--init", image, ...command)).toContain("no zombie");
      expect(await run("--entrypoint=snowlease", image, ...command)).toContain("a zombie");
    },
    5 * minutes,
  );

  test(
    "has the drivers of all stores",
    async () => {
      const script =
        "for (const name of ['ioredis', 'redlock', 'pg', 'mysql2', 'oracledb', 'node-zookeeper-client']) require(name)";
      await engine.run(
        "run",
        "--rm",
        "--network=none",
        "--workdir=/opt/snowlease",
        "--entrypoint=node",
        image,
        "-e",
        script,
      );
    },
    5 * minutes,
  );
});
