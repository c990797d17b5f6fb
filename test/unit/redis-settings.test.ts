import { describe, expect, test } from "vitest";
import type { ServerAddress } from "../../src/registries/url.ts";
import { parseAddress } from "../../src/registries/index.ts";
import { readRedisSettings, type RedisSettings } from "../../src/registries/redis/settings.ts";
import { thrown } from "../support/generator.ts";

const settingsOf = (url: string): RedisSettings => readRedisSettings(parseAddress(url) as ServerAddress);

describe("the settings in a Redis URL", () => {
  test("defaults", () => {
    expect(settingsOf("redis://localhost")).toEqual({
      wait: 0,
      beside: undefined,
      maxLag: 12_000,
      tls: false,
      sentinelUser: undefined,
      sentinelPassword: undefined,
      database: 0,
      primary: undefined,
    });
  });

  test.each([
    ["redis://localhost/3", { database: 3 }],
    ["redis://localhost/", { database: 0 }],
    ["redis://localhost?wait=2", { wait: 2 }],
    ["redis://localhost?maxLag=0", { maxLag: 0 }],
    ["redis://localhost?maxLag=250ms", { maxLag: 250 }],
    ["redis://localhost?maxLag=5s", { maxLag: 5000 }],
    ["redis://localhost?maxLag=2m", { maxLag: 120_000 }],
    ["redis://localhost?maxLag=1h", { maxLag: 3_600_000 }],
    ["redis://localhost?tls=true", { tls: true }],
    ["rediss://localhost", { tls: true }],
    ["rediss://localhost?tls=true", { tls: true }],
    ["redis://localhost?beside=westid", { beside: "westid" }],
    ["redis+sentinel://a,b/mymaster", { primary: "mymaster", database: 0 }],
    ["redis+sentinel://a,b/mymaster/2?sentinelPassword=x", { primary: "mymaster", database: 2, sentinelPassword: "x" }],
    ["redis+sentinel://a/ids?sentinelUser=ada&sentinelPassword=x", { sentinelUser: "ada", sentinelPassword: "x" }],
    ["redis+cluster://a,b", { database: 0 }],
  ])("%s", (url, expected) => {
    expect(settingsOf(url)).toMatchObject(expected);
  });

  test.each([
    ["redis://:s3cr3t@localhost?wait=-1", "`wait`"],
    ["redis://:s3cr3t@localhost?wait=101", "`wait`"],
    ["redis://:s3cr3t@localhost?wait=two", "`wait`"],
    ["redis://:s3cr3t@localhost?wait=1.5", "`wait`"],
    ["redis://:s3cr3t@localhost?wait=", "`wait`"],
    ["redis://:s3cr3t@localhost?wait=0x1", "`wait`"],
    ["redis+cluster://:s3cr3t@localhost?wait=1", "`wait`"],
    ["redis://:s3cr3t@localhost?maxLag=", "`maxLag`"],
    ["redis://:s3cr3t@localhost?maxLag=250", "`maxLag`"],
    ["redis://:s3cr3t@localhost?maxLag=soon", "`maxLag`"],
    ["redis://:s3cr3t@localhost?maxLag=61m", "`maxLag`"],
    ["redis://:s3cr3t@localhost?maxLag=-1s", "`maxLag`"],
    ["redis://:s3cr3t@localhost?maxLag=1.5s", "`maxLag`"],
    ["redis://:s3cr3t@localhost?tls=yes", "`tls`"],
    ["redis://:s3cr3t@localhost?tls=", "`tls`"],
    ["rediss://:s3cr3t@localhost?tls=false", "`tls`"],
    ["redis://:s3cr3t@localhost?beside=java", "`beside`"],
    ["redis://:s3cr3t@localhost?beside=", "`beside`"],
    ["redis://:s3cr3t@localhost/zero", "database"],
    ["redis://:s3cr3t@localhost/-1", "database"],
    ["redis://:s3cr3t@localhost/1/2", "database"],
    ["redis://:s3cr3t@localhost/1000001", "database"],
    ["redis+cluster://:s3cr3t@localhost/1", "database"],
    ["redis+sentinel://:s3cr3t@a,b", "name of the primary"],
    ["redis+sentinel://:s3cr3t@a,b/mymaster/x", "database"],
    ["redis://:s3cr3t@localhost?sentinelPassword=s3cr3t", "`sentinelPassword`"],
    ["redis+sentinel://:s3cr3t@a/ids?sentinelUser=ada", "`sentinelUser`"],
    ["redis+sentinel://a/ids?sentinelUser=&sentinelPassword=s3cr3t", "`sentinelUser`"],
  ])("%s is CONFIG_INVALID, in one line, with no secret", (url, names) => {
    const error = thrown(() => settingsOf(url));
    expect(error).toMatchObject({ code: "CONFIG_INVALID", retryable: false });
    expect(error.message).toContain(names);
    expect(error.message).toMatch(/^Expected [^\n]*, got [^\n]*; correct the registry URL\.$/);
    expect(error.message).not.toContain("s3cr3t");
  });
});
