import { describe, expect, test } from "vitest";
import {
  isElsewhere,
  isReply,
  isTemporary,
  isUnknownScript,
  isUnsent,
  nonsenseError,
  replyError,
  silentError,
} from "../../src/registries/redis/errors.ts";

const reply = (message: string): Error => Object.assign(new Error(message), { name: "ReplyError" });
const inScript = " script: 1f2e3d4c5b6a79881726354433221100ffeeddcc, on @user_script:12.";

describe("what a Redis answers with", () => {
  test.each([
    ["NOAUTH Authentication required.", "UNAUTHORIZED", false],
    ["WRONGPASS invalid username-password pair or user is disabled.", "UNAUTHORIZED", false],
    ["NOPERM this user has no permissions to run the 'evalsha' command", "FORBIDDEN", false],
    ["ERR The user executing the script can't run this command or subcommand" + inScript, "FORBIDDEN", false],
    ["ERR The user executing the script can't access at least one of the keys" + inScript, "FORBIDDEN", false],
    ["MOVED 3999 127.0.0.1:6381", "CONFIG_INVALID", false],
    ["CROSSSLOT Keys in request don't hash to the same slot", "CONFIG_INVALID", false],
    ["ERR Script attempted to access a non local key in a cluster node" + inScript, "CONFIG_INVALID", false],
    ["OOM command not allowed when used memory > 'maxmemory'." + inScript, "REGISTRY_UNAVAILABLE", false],
    ["READONLY You can't write against a read only replica." + inScript, "REGISTRY_UNAVAILABLE", true],
    ["LOADING Redis is loading the dataset in memory", "REGISTRY_UNAVAILABLE", true],
    ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "REGISTRY_UNAVAILABLE", true],
    ["CLUSTERDOWN The cluster is down", "REGISTRY_UNAVAILABLE", true],
    ["TRYAGAIN Multiple keys request during rehashing of slot", "REGISTRY_UNAVAILABLE", true],
    ["BUSY Redis is busy running a script.", "REGISTRY_UNAVAILABLE", true],
    ["MISCONF Redis is configured to save RDB snapshots", "REGISTRY_UNAVAILABLE", false],
    ["NOREPLICAS Not enough good replicas to write.", "REGISTRY_UNAVAILABLE", true],
    ["WRONGTYPE Operation against a key holding the wrong kind of value" + inScript, "SCHEMA_INCOMPATIBLE", false],
    ["NONSENSE workerId:window:7 until abc" + inScript, "SCHEMA_INCOMPATIBLE", false],
    ["ERR NONSENSE workerId:window:7 until abc" + inScript, "SCHEMA_INCOMPATIBLE", false],
    ["ERR unknown command", "REGISTRY_UNAVAILABLE", false],
    ["ERR unknown command 'EVALSHA': this is Snowlease; it has GET.", "CONFIG_INVALID", false],
    ["ERR unknown command 'SENTINEL': this is Snowlease; it has GET.", "CONFIG_INVALID", false],
    ["constructor", "REGISTRY_UNAVAILABLE", false],
    ["", "REGISTRY_UNAVAILABLE", false],
  ] as const)("%s: %s", (message, code, again) => {
    const error = replyError(reply(message), "10.0.0.1:6379");
    expect(error.code).toBe(code);
    expect(error.message).toMatch(/^Redis 10\.0\.0\.1:6379 [^\n]+[;:] [^\n]+\.$/);
    expect(isTemporary(reply(message))).toBe(again);
  });

  test("a record with something else in it is told with its key, its field and what is there", () => {
    const text = (message: string): string => replyError(reply(message), "r:1").message;
    expect(text(`ERR NONSENSE workerId:window:7 until abc def${inScript}`)).toBe(
      "Redis r:1 holds `abc def` (string) as `until` at the key `workerId:window:7`, which Snowlease never wrote: put it right by hand.",
    );
    expect(text(`ERR NONSENSE workerId:meta era ${inScript}`)).toContain(
      "holds nothing as `era` at the key `workerId:meta`",
    );
  });

  test("only a server that is not the primary is left for another one", () => {
    for (const word of ["READONLY", "MASTERDOWN"]) expect(isElsewhere(reply(`${word} x`))).toBe(true);
    for (const word of ["LOADING", "BUSY", "TRYAGAIN", "NOREPLICAS", "ERR"])
      expect(isElsewhere(reply(`${word} x`))).toBe(false);
  });

  test("what a server says, and what became of the connection, are two things", () => {
    expect(isReply(reply("ERR x"))).toBe(true);
    expect(isReply(new Error("Connection is closed."))).toBe(false);
    expect(isReply("ERR x")).toBe(false);
    expect(isUnknownScript(reply("NOSCRIPT No matching script."))).toBe(true);
    expect(isUnknownScript(reply("ERR NOSCRIPT"))).toBe(false);
    const unsent = new Error("Stream isn't writeable and enableOfflineQueue options is false");
    expect([isUnsent(unsent), isTemporary(unsent)]).toEqual([true, true]);
    expect(isUnsent(new Error("Connection is closed."))).toBe(false);
  });

  test("what answers as no Redis does is told at once", () => {
    const text = (said: string): string | undefined => nonsenseError("r:1", new Error(said))?.message;
    const told = "nothing was changed; look what listens there, and correct the address.";
    expect(text('Unknown RESP type 72 "H". Please report this.')).toBe(
      `r:1 answers as no Redis does (Unknown RESP type 72 "H"), ${told}`,
    );
    expect(text('Protocol error, got "H" as reply type byte. Please report this.')).toContain("(Protocol error, got ");
    expect(text("connect ECONNREFUSED 127.0.0.1:1")).toBeUndefined();
  });

  test("nobody answered: what was sent may have been done, and only what had time says how long", () => {
    const text = (sent: boolean, cause?: Error): string => silentError("r:1", 300, { sent, tls: false }, cause).message;
    expect(text(false)).toBe(
      "Redis r:1 did not answer within 300 ms, nothing was changed; look whether it runs and can be reached.",
    );
    expect(text(false, new Error("connect ECONNREFUSED"))).toContain(
      "within 300 ms (connect ECONNREFUSED), nothing was changed",
    );
    expect(text(true)).toContain("within 300 ms; whether it did what was asked is not known");
    expect(text(true, new Error("Connection is closed."))).toContain("did not answer (Connection is closed.); whether");
    expect(silentError("r:1", 300, { sent: false, tls: true }).message).toMatch(/, and whether that port has TLS\.$/);
    expect(silentError("r:1", 300, { sent: true, tls: true })).toMatchObject({
      code: "REGISTRY_UNAVAILABLE",
      retryable: true,
    });
  });
});
