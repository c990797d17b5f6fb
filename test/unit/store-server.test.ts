import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { findServer, type Program } from "../support/store-server.ts";

const installed: Program<{ url(): string; remove(): Promise<void> }> = {
  missing: undefined,
  start: () => Promise.resolve({ url: () => "redis://own", remove: () => Promise.resolve() }),
};
const missing = { ...installed, missing: "redis-server is not installed: as root, apt-get install redis-server" };

beforeEach(() => {
  for (const name of ["CI", "REDIS_URL", "ORACLE_URL", "SNOWLEASE_CONTAINERS"]) vi.stubEnv(name, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.doUnmock("../support/containers.ts");
});

/** What an engine says, in the place of one. */
function engine(says: object): void {
  vi.resetModules();
  vi.doMock("../support/containers.ts", () => ({
    findEngine: () => Promise.resolve({}),
    findComposed: () => Promise.resolve(undefined),
    hasImage: () => Promise.resolve(false),
    fetchImage: () => Promise.resolve(),
    startContainer: () => Promise.resolve({ url: "redis://container", remove: () => Promise.resolve() }),
    ...says,
  }));
}

describe("the server of a test", () => {
  test("is the one that the environment names, even beside a program; its URL keeps its query", async () => {
    vi.stubEnv("REDIS_URL", "redis://mine?wait=1");
    const source = await findServer("redis", installed);
    expect(source).toMatchObject({ title: "on the server in REDIS_URL", isMissing: false, isOwn: false });
    const server = await source.start();
    expect(server.stays).toBe(true);
    expect([server.url(), server.url("?maxLag=0")]).toEqual(["redis://mine?wait=1", "redis://mine?wait=1&maxLag=0"]);
  });

  test("is the program of this machine, which the test alone uses", async () => {
    const source = await findServer("redis", installed);
    expect(source).toMatchObject({ title: "on a server of this machine", isMissing: false, isOwn: true });
    const server = await source.start();
    expect([server.url(), server.own?.url(), server.stays]).toEqual(["redis://own", "redis://own", undefined]);
  });

  test("is none where nothing is there, and CI takes no container unasked: what is skipped names all ways to one", async () => {
    const ways =
      "redis: no server. To get one: redis-server is not installed: as root, apt-get install redis-server; or name a server in REDIS_URL; or allow containers: SNOWLEASE_CONTAINERS=1";
    for (const variable of ["CI", "SNOWLEASE_CONTAINERS"]) {
      vi.stubEnv(variable, "0");
      expect(await findServer("redis", missing)).toMatchObject({ title: ways, isMissing: true });
      vi.stubEnv(variable, undefined);
    }
  });

  test("is none where no engine answers, and that is an error where containers were asked for", async () => {
    engine({ findEngine: () => Promise.resolve(undefined) });
    const skipped = await findServer("redis", missing);
    expect(skipped.isMissing).toBe(true);
    expect(skipped.title).toMatch(/; or name a server in REDIS_URL; or start Docker, .*: no engine answers this user$/);
    vi.stubEnv("SNOWLEASE_CONTAINERS", "1");
    const red = await findServer("redis", installed);
    expect(red.isMissing).toBe(false);
    await expect(red.start()).rejects.toThrow(
      "redis: no server. To get one: name a server in REDIS_URL; or start Docker",
    );
  });

  test("is the service of docker-compose.yml once that is healthy", async () => {
    engine({ findComposed: () => Promise.resolve({ url: "redis://composed" }) });
    const source = await findServer("redis", missing);
    expect(source).toMatchObject({ title: "on the service redis of docker-compose.yml", isMissing: false });
    expect((await source.start()).stays).toBe(true);
    engine({ findComposed: () => Promise.resolve({ url: undefined }) });
    const waiting = await findServer("redis", missing);
    expect(waiting.isMissing).toBe(true);
    expect(waiting.title).toContain("wait until the service redis of docker-compose.yml is healthy");
  });

  test("is a container of the image with its digest; of an image with that tag where these were asked for", async () => {
    const taken: string[] = [];
    engine({
      fetchImage: async (_: object, image: string) => void taken.push(image),
      hasImage: () => Promise.resolve(true),
    });
    const source = await findServer("redis", missing);
    expect(source).toMatchObject({ title: "in a container of redis:7.4", isMissing: false, isOwn: false });
    expect((await source.start()).url("?maxLag=0")).toBe("redis://container?maxLag=0");
    vi.stubEnv("SNOWLEASE_CONTAINERS", "tags");
    await findServer("redis", installed);
    expect(taken).toEqual([expect.stringMatching(/^redis:7\.4@sha256:[\da-f]{64}$/), "redis:7.4"]);
  });

  test("is none where its image cannot be fetched, and Oracle's is fetched only when asked for", async () => {
    engine({ fetchImage: () => Promise.reject(new Error("no route")) });
    expect((await findServer("redis", missing)).title).toMatch(
      /; or let Docker fetch redis:7\.4@sha256:\S+: no route$/,
    );
    expect((await findServer("oracle", missing)).title).toMatch(
      /; or fetch its image: docker pull gvenzl\/oracle-free:\S+$/,
    );
    engine({});
    vi.stubEnv("SNOWLEASE_CONTAINERS", "1");
    expect((await findServer("oracle", missing)).title).toBe("in a container of gvenzl/oracle-free:23-slim-faststart");
  });

  test("is asked for in one of three words", async () => {
    vi.stubEnv("SNOWLEASE_CONTAINERS", "yes");
    await expect(findServer("redis", missing)).rejects.toThrow(
      "Expected `SNOWLEASE_CONTAINERS` to be 0, 1 or tags, got `yes`.",
    );
  });
});
