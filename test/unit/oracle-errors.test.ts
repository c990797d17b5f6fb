import { describe, expect, test } from "vitest";
import { serverError } from "../../src/registries/sql/errors.ts";
import { oracle } from "../../src/registries/sql/oracle/dialect.ts";
import { cameToNothing, isAlreadyThere, meaningOf, oneLine } from "../../src/registries/sql/oracle/errors.ts";
import { namesOf } from "../../src/registries/sql/statements.ts";

/** An error of the driver: a server's error with a number and a link, its own without. */
function thrown(code: string, text = "says the server"): Error {
  const number = Number(code.slice(4));
  const help = code.startsWith("ORA-") ? `\nHelp: https://docs.oracle.com/error-help/db/${code.toLowerCase()}/` : "";
  return Object.assign(new Error(`${code}: ${text}${help}`), { code, ...(help !== "" && { errorNum: number }) });
}

const place = { title: "Oracle", where: "db:1521", url: "oracle://***@db/ids", namespace: "orders" };

describe("an error of Oracle", () => {
  test.each([
    ["ORA-00001", "REGISTRY_UNAVAILABLE", "raced"],
    ["ORA-00054", "REGISTRY_UNAVAILABLE", "raced"],
    ["ORA-00060", "REGISTRY_UNAVAILABLE", "raced"],
    ["ORA-08177", "REGISTRY_UNAVAILABLE", "raced"],
    ["ORA-30006", "REGISTRY_UNAVAILABLE", "raced"],
    ["ORA-00020", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-12516", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-12519", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-12514", "REGISTRY_UNAVAILABLE", "passes"],
    ["NJS-518", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-01033", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-12528", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-01013", "REGISTRY_UNAVAILABLE", "passes"],
    ["NJS-123", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-16000", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-07445", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-01000", "REGISTRY_UNAVAILABLE", "passes"],
    ["ORA-01536", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-01658", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-04031", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-01653", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-01654", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-30036", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-00257", "REGISTRY_UNAVAILABLE", "final"],
    ["ORA-00942", "SCHEMA_INCOMPATIBLE", "final"],
    ["ORA-00904", "SCHEMA_INCOMPATIBLE", "final"],
    ["ORA-01017", "UNAUTHORIZED", "final"],
    ["ORA-28000", "UNAUTHORIZED", "final"],
    ["ORA-28001", "UNAUTHORIZED", "final"],
    ["NJS-101", "UNAUTHORIZED", "final"],
    ["ORA-01031", "FORBIDDEN", "final"],
    ["ORA-41900", "FORBIDDEN", "final"],
    ["ORA-00972", "CONFIG_INVALID", "final"],
    ["ORA-12899", "CONFIG_INVALID", "final"],
    ["ORA-01482", "CONFIG_INVALID", "final"],
    ["NJS-138", "CONFIG_INVALID", "final"],
    ["NJS-533", "CONFIG_INVALID", "final"],
  ])("%s is %s (%s)", (code, expected, how) => {
    const meaning = meaningOf(thrown(code));
    if (meaning === undefined) throw new Error("It means nothing.");
    expect([meaning.raced === true, meaning.passes === true]).toEqual([how === "raced", how === "passes"]);
    const error = serverError(meaning, oneLine(thrown(code)), place);
    expect(error.code).toBe(expected);
    expect(error.message).toMatch(/^[^\n]+; [^\n]+\.$/);
    expect(error.message).toContain(code);
    expect(error.message).not.toContain("Help");
  });

  const lost =
    "ORA-00028 ORA-01012 ORA-01089 ORA-01092 ORA-02396 ORA-03113 ORA-03114 ORA-03135 ORA-12537 ORA-12541 ORA-12547";
  const unreachable =
    "ORA-12170 ORA-12535 ORA-12570 ORA-12637 ORA-25408 NJS-003 NJS-500 NJS-501 NJS-503 NJS-506 NJS-510 NJS-521 NJS-530";
  test.each(`${lost} ${unreachable}`.split(" "))(
    "after %s the result is unknown, and the connection is not used again",
    (code) => {
      expect(meaningOf(thrown(code))).toBeUndefined();
      expect(cameToNothing(thrown(code))).toBe(true);
    },
  );

  test.each(["ORA-00001", "ORA-00942", "ORA-12899", "NJS-123"])(
    "after %s the result is known, and the connection is kept",
    (code) => {
      expect(cameToNothing(thrown(code))).toBe(false);
    },
  );

  test("inside the server is explained by the error behind it, and shown", () => {
    const inside = (code: string): Error =>
      thrown("ORA-00604", `error occurred at recursive SQL level 1\n${code}: why\nORA-06512: at line 3`);
    for (const code of ["ORA-01000", "ORA-04031", "ORA-01658", "ORA-00001"]) {
      expect(meaningOf(inside(code))).toBe(meaningOf(thrown(code)));
      const shown = oneLine(inside(code));
      expect((shown as Error).message).toBe(`ORA-00604: error occurred at recursive SQL level 1: ${code}: why`);
      expect(meaningOf(shown)).toBe(meaningOf(thrown(code)));
    }
    expect(cameToNothing(oneLine(inside("ORA-00028")))).toBe(true);
    const nested = thrown("ORA-00604", "level 1\nORA-00604: level 2\nORA-04031: why");
    expect(meaningOf(oneLine(nested))).toBe(meaningOf(thrown("ORA-04031")));
    expect(meaningOf(thrown("ORA-00604", "level 1"))).toMatchObject({ code: "REGISTRY_UNAVAILABLE", passes: true });
  });

  test("tells which of our names are too long", () => {
    expect(meaningOf(thrown("ORA-00972"))).toMatchObject({
      says: "takes no names as long as those of this namespace's tables",
      advice: "choose a namespace of at most 9 characters, or raise COMPATIBLE to 12.2 or higher",
    });
    const longest = Object.values(namesOf("ninechars")).map((name) => name.length);
    expect(Math.max(...longest)).toBe(30);
  });

  test("of a listener is shown with its text", () => {
    const refused = thrown(
      "NJS-511",
      "connection to listener at host a port 1 was refused. (CONNECTION_ID=x==)\nCause: ORA-12520",
    );
    expect(meaningOf(refused)).toBe(meaningOf(thrown("ORA-12520")));
    expect(meaningOf(thrown("NJS-511", "was refused\nCause: refused"))).toBeUndefined();
  });

  test("that the driver did not throw means nothing", () => {
    for (const error of [
      undefined,
      "ORA-00001",
      new Error("ORA-00001: x"),
      Object.assign(new Error("x"), { code: "ECONNRESET" }),
    ]) {
      expect(meaningOf(error)).toBeUndefined();
      expect(cameToNothing(error)).toBe(true);
    }
  });

  test("for an existing table or index is recognized", () => {
    expect(["ORA-00955", "ORA-01408", "ORA-00942"].map((code) => isAlreadyThere(thrown(code)))).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("is shown in one line, without values of rows, links and numbers of connections", () => {
    const told = (code: string, text: string): string => (oneLine(thrown(code, text)) as Error).message;
    expect(
      told("ORA-00001", "unique constraint violated\nORA-03301: row with column values (TOKEN:'s3cret') exists"),
    ).toBe("ORA-00001: unique constraint violated");
    expect(
      told("NJS-503", "connection to host a could not be established. (CONNECTION_ID=a+/=)\nconnect ECONNREFUSED"),
    ).toBe("NJS-503: connection to host a could not be established: connect ECONNREFUSED");
    expect(oneLine("x")).toBe("x");
  });
});

describe("whether it is the same server", () => {
  test.each([
    ["a.IDS/1.2.3.4", "a.IDS/1.2.3.4", true, "nothing has changed"],
    ["a.IDS/1.2.3.4", "b.IDS/1.2.3.4", true, "a switchover loses nothing"],
    ["a.IDS/1.2.3.4", "a.IDS/1.2.5.6", false, "it was opened with RESETLOGS"],
    ["a.IDS/1.2.3.4", "a.IDS/9.2.3.4", false, "another database of that name"],
    ["a.IDS/1.2.3.4", "a.IDS/", true, "a user without the right to ask for more"],
    ["a.IDS/", "a.IDS/1.2.3.4", true, "a user with the right to ask for more"],
    ["a.IDS/", "b.IDS/", false, "another site"],
    ["a.IDS/1.2.3.4", "b.IDS/", false, "another site, as far as the user may ask"],
    ["a.IDS/", "a.OTHER/", false, "another pluggable database"],
  ])("%s and %s: %s (%s)", (stored, seen, same) => {
    expect(oracle.sameServer(stored, seen)).toBe(same);
  });
});
