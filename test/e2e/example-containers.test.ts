import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { composedService } from "../support/compose.ts";
import { DockerEngine, noEngine } from "../support/docker.ts";
import { leftIn, runBeside, runTestsBeside } from "../support/engine-run.ts";
import { example, programOf } from "../support/examples.ts";
import { isProgram, whyMissing } from "../support/servers.ts";
import { makeStoreImages } from "../support/store-images.ts";

const missing = noEngine ?? whyMissing("docker-compose", () => isProgram("docker-compose"), "docker-compose");
if (missing !== undefined)
  console.warn(`NOT RUN: containers of an example and of docker-compose.yml, since ${missing}.`);

describe.skipIf(missing !== undefined)(missing ?? "beside an engine", () => {
  const { image, tag } = composedService("redis");
  let engine: DockerEngine;

  beforeAll(async () => {
    engine = await DockerEngine.start({ network: "own" });
    await makeStoreImages(engine, ["redis"]);
  });
  afterAll(() => engine?.stop());

  test("testcontainers/ids.test.ts restarts a Redis with and without its volume: no ID comes twice, and the loss is told", async () => {
    // The same digest as in docker-compose.yml.
    expect(readFileSync(example("testcontainers/ids.test.ts"), "utf8")).toContain(`"${image}"`);
    const [node, ...args] = programOf("testcontainers/ids.test.ts");
    const { code, output } = await runBeside(engine, [node, "--test", "--test-reporter=spec", ...args], {
      REDIS_IMAGE: tag,
    });
    expect(code, output).toBe(0);
    expect(output).toMatch(/made \d+ IDs while the Redis was lost; refused: \{"LEASE_EXPIRED":\d+/);
    expect(output).toMatch(/Redis [\d.:]+ has no namespace `orders`.* may have forgotten windows/);
    expect(output).toMatch(/\d{4,} IDs of 5 programs/);
    expect(await leftIn(engine)).toBe("");
  });

  describe("docker-compose.yml", () => {
    let folder: string;
    const compose = (...args: readonly string[]): ReturnType<typeof runBeside> => {
      const files = ["docker-compose.yml", join(folder, "images.yml")].flatMap((file) => ["--file", file]);
      return runBeside(engine, ["docker-compose", ...files, ...args]);
    };

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "snowlease-compose-"));
      // The digest is that of an image which cannot be fetched.
      writeFileSync(join(folder, "images.yml"), `services: { redis: { image: "${tag}" } }\n`);
      const { code, output } = await compose("up", "--detach", "redis");
      expect(code, output).toBe(0);
      const { output: id } = await compose("ps", "--quiet", "redis");
      for (let health = ""; health !== "healthy";) {
        health = await engine.run("inspect", "--format={{.State.Health.Status}}", id.trim());
      }
    });
    afterAll(async () => {
      await compose("down", "--volumes");
      rmSync(folder, { recursive: true });
    });

    test("brings up a Redis that the contract finds, and leaves as it was", async () => {
      const results = await runTestsBeside(engine, ["test/conformance/redis.test.ts"], {
        SNOWLEASE_CONTAINERS: "tags",
      });
      const here = results.filter(({ titles }) => titles.includes("on the service redis of docker-compose.yml"));
      expect(here.filter(({ status }) => status === "passed").length).toBeGreaterThan(180);
      const keys = await compose("exec", "-T", "redis", "redis-cli", "dbsize");
      expect(keys).toEqual({ code: 0, output: "0\n" });
    });
  });
});
