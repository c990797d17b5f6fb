import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { conformance } from "../../src/conformance.ts";
import { contained } from "../support/containers.ts";
import { DockerEngine, noEngine } from "../support/docker.ts";
import { eventually } from "../support/holder.ts";
import { postgresPrograms } from "../support/postgres.ts";
import { makeServerImages } from "../support/server-images.ts";

const minutes = 60_000;
const stores = ["redis", "postgres", "etcd"] as const;
const serverRestart =
  "the server killed with -9 and started again while services make IDs: they go on, and what they hold stays theirs";
/** The restart check that stores must pass whose namespaces only `init` makes. */
const checked = conformance.filter(({ needs = [] }) => !needs.includes("creates-namespaces")).map(({ title }) => title);

const isMissing = noEngine !== undefined && process.env["CI"] === undefined;
if (isMissing) console.warn(`NOT RUN: contract and restart matrix in containers, since ${noEngine}.`);

/** A test of the run within this test. */
interface Outcome {
  readonly title: string;
  readonly ancestorTitles: readonly string[];
  readonly status: string;
  readonly failureMessages: readonly string[];
}

describe.skipIf(isMissing)("on a machine without the servers' programs", () => {
  let engine: DockerEngine;
  let folder: string;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "snowlease-containers-"));
    engine = await DockerEngine.start("own");
    await makeServerImages(engine);
  }, 5 * minutes);
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await engine.stop();
  }, 5 * minutes);

  /** Runs vitest on some files where only containers are available. */
  async function run(files: readonly string[], environment: Readonly<Record<string, string>>): Promise<Outcome[]> {
    const hidden = "for each in redis-server etcd; do mount --bind /dev/null $(command -v $each); done";
    const alone = `set -e; ${hidden}; mount -t tmpfs none ${postgresPrograms}; exec "$@"`;
    const report = join(folder, crypto.randomUUID());
    const vitest = ["node_modules/vitest/vitest.mjs", "run", "--reporter=json", `--outputFile=${report}`, ...files];
    const args = [`--net=${engine.network}`, "unshare", "--mount", "sh", "-c", alone, "sh", process.execPath];
    const inherited = Object.entries(process.env).filter(([name]) => !/^(CI$|VITEST|SNOWLEASE)|_URL$/.test(name));
    const env = {
      ...Object.fromEntries(inherited),
      DOCKER_HOST: engine.host,
      // Its image cannot be fetched: the rest ends with the engine.
      TESTCONTAINERS_RYUK_DISABLED: "true",
      ...environment,
    };
    await new Promise((resolve) => execFile("nsenter", [...args, ...vitest], { env, maxBuffer: 1 << 26 }, resolve));
    const { testResults } = JSON.parse(readFileSync(report, "utf8")) as {
      readonly testResults: readonly { readonly assertionResults: readonly Outcome[] }[];
    };
    return testResults.flatMap(({ assertionResults }) => assertionResults);
  }

  test(
    "the contract of Redis, PostgreSQL and etcd and the restart matrix run in containers",
    async () => {
      const matrix = "postgres";
      const outcomes = await run(
        [...stores.map((store) => `test/conformance/${store}.test.ts`), `test/faults/${matrix}-restart.test.ts`],
        { SNOWLEASE_CONTAINERS: "1" },
      );
      expect(failed(outcomes), failed(outcomes)).toBe("");
      for (const store of stores) {
        const titles = passed(
          outcomes,
          `${store} in a container of ${contained[store].image}`,
          `${store} keeps the registry contract`,
        );
        expect(titles).toEqual(expect.arrayContaining(checked));
      }
      const restarts = outcomes.filter(({ ancestorTitles }) => ancestorTitles[1] === `restarts on ${matrix}`);
      const titles = passed(
        outcomes,
        `${matrix} in a container of ${contained[matrix].image}`,
        `restarts on ${matrix}`,
      );
      expect(titles).toEqual(restarts.map(({ title }) => title));
      expect(titles).toContain(serverRestart);
    },
    5 * minutes,
  );

  test(
    "the restart matrix uses a server at a URL only with a command that restarts it",
    async () => {
      const { image, port, url } = contained.postgres;
      const variables = Object.entries(contained.postgres.environment).map(([name, value]) => `--env=${name}=${value}`);
      await engine.run("run", "--detach", "--name=theirs", `--publish=15432:${port}`, ...variables, image);
      await eventually(
        () => engine.run("logs", "theirs"),
        (said) => said.includes("ready to accept connections"),
      );
      const outcomes = await run(
        ["test/faults/postgres-restart.test.ts", "test/faults/etcd-restart.test.ts", "-t", "server killed"],
        {
          POSTGRES_URL: url("127.0.0.1:15432"),
          POSTGRES_RESTART: "docker restart --time=0 theirs",
          ETCD_URL: contained.etcd.url("127.0.0.1:12379"),
          SNOWLEASE_CONTAINERS: "1",
        },
      );
      expect(failed(outcomes), failed(outcomes)).toBe("");
      expect(passed(outcomes, "postgres at POSTGRES_URL", "restarts on postgres")).toEqual([serverRestart]);
      expect(outcomes.filter(({ status }) => status === "passed")).toHaveLength(1);
      expect(await engine.run("logs", "theirs")).toMatch(/was interrupted|not properly shut down/);
      const why = "etcd: ETCD_RESTART names no command that starts the server at ETCD_URL again";
      expect(outcomes.map(({ ancestorTitles }) => ancestorTitles[0])).toContain(why);
    },
    5 * minutes,
  );
});

/** The failures, and their reasons. */
function failed(outcomes: readonly Outcome[]): string {
  return outcomes
    .filter(({ status }) => status === "failed")
    .map(({ title, failureMessages }) => `${title}: ${failureMessages.join("\n").split("\n", 1)[0]}`)
    .join("; ");
}

function passed(outcomes: readonly Outcome[], ...within: readonly string[]): readonly string[] {
  const isWithin = ({ ancestorTitles }: Outcome): boolean => within.every((each, i) => ancestorTitles[i] === each);
  return outcomes.filter((outcome) => isWithin(outcome) && outcome.status === "passed").map(({ title }) => title);
}
