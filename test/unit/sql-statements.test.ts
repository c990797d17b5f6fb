import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readStatements } from "../../src/registries/sql-sections.ts";
import { loadSchema, loadStatements, named, namesOf, placeholder } from "../../src/registries/sql/statements.ts";

const root = join(import.meta.dirname, "../..");
const dialects = foldersIn(join(root, "src/registries/sql"));

function foldersIn(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Parts of how a session is set up, and of how tables are dropped, which only its own dialect asks for. */
const ownOf = (dialect: string): string[] =>
  [...loadStatements(dialect).keys()].filter((name) =>
    /^(?:session\.(?:open|isolation|server|settings|log-rows|cluster|identity-of-cluster|read-latest|begin|one-row|schema)|meta\.(?:lock|drop|unlock)-tables)$/.test(
      name,
    ),
  );

function shared(dialect: string): Map<string, string> {
  const own = ownOf(dialect);
  return new Map([...loadStatements(dialect)].filter(([name]) => !own.includes(name)));
}

const parametersOf = (text: string): string[] =>
  [...new Set([...text.matchAll(placeholder)].map(([, name = ""]) => name))].toSorted();

describe("every dialect has the same statements", () => {
  const [first = "", ...others] = dialects;

  test("and there are dialects, each with its folder in sql/", () => {
    expect(dialects).toEqual(expect.arrayContaining(["mysql", "oracle", "postgres"]));
    for (const dialect of dialects) {
      expect(readdirSync(join(root, "sql", dialect))).toEqual(readdirSync(join(root, "sql", first)));
    }
  });

  test.each(others)("%s", (dialect) => {
    expect([...shared(dialect).keys()].toSorted()).toEqual([...shared(first).keys()].toSorted());
    for (const [name, text] of shared(dialect)) {
      // Where a transaction's end unlocks, nothing is locked, or a database has no schemas, there is nothing to say.
      if (/^meta\.(?:lock|unlock|schema|elsewhere)$/.test(name)) continue;
      expect([name, parametersOf(text)]).toEqual([name, parametersOf(shared(first).get(name) ?? "")]);
    }
  });

  test.each(dialects)("%s has the same version of the schema as the others, and the same columns", (dialect) => {
    const columns = (name: string): string[] =>
      loadSchema(name).statements.flatMap((text) =>
        [...text.matchAll(/^ {2}([a-z_]+) (?!KEY\b)[A-Z]/gm)].map(([, column = ""]) => column),
      );
    expect(columns(dialect)).toEqual(columns(first));
    const { version, statements } = loadSchema(dialect);
    expect([...readStatements(`${dialect}/schema.sql`).keys()]).toEqual([String(loadSchema(first).version)]);
    expect(statements.at(-1)).toContain(`'schema', '${version}'`);
  });
});

describe.each(dialects)("the statements of %s", (dialect) => {
  const folder = join(root, "src/registries/sql");
  const source = [folder, join(folder, dialect)]
    .flatMap((place) =>
      readdirSync(place)
        .filter((file) => file.endsWith(".ts"))
        .map((file) => join(place, file)),
    )
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");

  test("are all used", () => {
    for (const name of loadStatements(dialect).keys()) {
      expect(source).toMatch(new RegExp(`"(?:${name.replaceAll(".", "\\.")}|${name.replace("session.", "")})"`));
    }
  });

  test("know all names in braces", () => {
    const names = {
      ...namesOf("orders"),
      identity: "",
      timeout: "",
      lock_timeout: "",
      idle_timeout: "",
      statement: "",
      schema: "",
      place: "",
      tables: "",
      written_tables: "",
    };
    const texts = [...loadStatements(dialect).values(), ...loadSchema(dialect).statements];
    for (const text of texts) expect(named(text, names)).not.toMatch(/[{}]/);
  });
});

describe("the names of a namespace's tables", () => {
  test("are westid's for the default one, and bear the name of another", () => {
    expect(namesOf("default")).toMatchObject({ assign: "workerid_assign", window: "workerid_window" });
    expect(namesOf("orders")).toMatchObject({ assign: "workerid_assign_orders", meta: "workerid_meta_orders" });
  });

  test("never meet those of another namespace", () => {
    const awkward = [
      "default",
      "x",
      "key",
      "pkey",
      "by_until",
      "key_assign",
      "until",
      "assign",
      "window",
      "meta",
      "a".repeat(32),
    ];
    const all = awkward.flatMap((namespace) => Object.values(namesOf(namespace)));
    expect(new Set(all).size).toBe(all.length);
    for (const name of all) expect(name).toMatch(/^[a-z0-9_]{1,63}$/);
  });

  test.each(["", "Orders", "a-b", "a;drop", "a b", "1a", "a".repeat(33), "a\n"])("are refused for %j", (namespace) => {
    expect(() => namesOf(namespace)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }));
  });
});

test("a parameter is neither a cast nor a time of day", () => {
  expect(parametersOf("SELECT :a::bigint, '12:30', x::text, :b_c WHERE t LIKE 'pool:%'")).toEqual(["a", "b_c"]);
});
