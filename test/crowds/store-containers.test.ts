import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { composedService } from "../support/compose.ts";
import { DockerEngine, noEngine } from "../support/docker.ts";
import { leftIn, runTestsBeside, type TestResult } from "../support/engine-run.ts";
import { patience } from "../support/patience.ts";
import { madeStores, makeStoreImages } from "../support/store-images.ts";

if (noEngine !== undefined) console.warn(`NOT RUN: contract and restarts in containers, since ${noEngine}.`);

describe.skipIf(noEngine !== undefined)(
  `tests find their servers in containers${noEngine ? `: no, ${noEngine}` : ""}`,
  () => {
    let engine: DockerEngine;
    let results: readonly TestResult[];

    beforeAll(async () => {
      engine = await DockerEngine.start({ network: "own" });
      await makeStoreImages(engine, madeStores);
      const files = [...madeStores, "mysql", "oracle"].filter((store) => store !== "mariadb");
      const args = [
        ...files.map((store) => `test/conformance/${store}.test.ts`),
        ...["redis", "postgres"].map((store) => `test/faults/${store}-restart.test.ts`),
      ];
      results = await runTestsBeside(engine, args, { SNOWLEASE_CONTAINERS: "tags" });
    }, 2 * patience);
    afterAll(() => engine?.stop());

    /** The tests in a suite whose title begins so. */
    const within = (begin: string, title: string): readonly TestResult[] =>
      results.filter(({ titles }) => titles.includes(begin) && titles.some((each) => each.startsWith(title)));

    test("no container and no volume is left", async () => {
      expect(results.length).toBeGreaterThan(1000);
      expect(await leftIn(engine)).toBe("");
    });

    test.each(madeStores)("%s keeps the contract in a container", (store) => {
      const kind = store === "mariadb" ? "mysql" : store;
      const here = within(`in a container of ${composedService(store).tag}`, `${kind} keeps the registry contract`);
      expect(here.filter(({ status }) => status === "passed").length).toBeGreaterThan(180);
    });

    test.each(["redis", "postgres"] as const)("%s passes the restart matrix in a container", (store) => {
      const here = within(`in a container of ${composedService(store).tag}`, `restarts on ${store}`);
      expect(here.length).toBeGreaterThan(15);
      expect(here.filter(({ status }) => status !== "passed")).toEqual([]);
    });

    test.each(["mysql", "oracle"] as const)(
      "%s, of which there is no image, is skipped, and says what would bring one",
      (store) => {
        const none = results.filter(({ titles }) => titles.some((each) => each.startsWith(`${store}: no server. `)));
        expect(none.length).toBeGreaterThan(180);
        expect(none.filter(({ status }) => status === "passed")).toEqual([]);
        const [why = ""] = none[0]?.titles.filter((each) => each.includes("no server")) ?? [];
        expect(why).toContain(`name a server in ${store.toUpperCase()}_URL; or fetch its image: docker pull `);
      },
    );
  },
);
