import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const textsOf = (folder: string, ending: string): Map<string, string> =>
  new Map(
    readdirSync(join(root, folder), { encoding: "utf8", recursive: true })
      .filter((name) => name.endsWith(ending))
      .map((name) => [name, readFileSync(join(root, folder, name), "utf8")]),
  );

/** The tests outside the test files: the contract's checks, the restarts, and shared parts of fault tests. */
const shared = ["src/conformance", "src/proof", "test/support"]
  .flatMap((folder) => [...textsOf(folder, ".ts").values()])
  .join("\n");

const record = readFileSync(join(root, "test/bugs.md"), "utf8");
const commands = [...record.matchAll(/`npm test -- --project=(\w+) ([^`"]*?)(?: -t "([^"]*)")?`/g)];

test("the bug record has its commands", () => {
  expect(commands.length).toBeGreaterThan(100);
});

test.each(commands.map(([, project = "", names = "", title = ""]) => ({ project, names, title })))(
  "$project $names -t $title names tests that are there",
  ({ project, names, title }) => {
    const tests = [...textsOf(`test/${project}`, ".test.ts")].filter(([file]) =>
      names.split(" ").some((name) => `${project}/${file}`.includes(name)),
    );
    expect(tests).not.toEqual([]);
    const text = [...tests.map(([, source]) => source), shared].join("\n");
    for (const part of title.split(/\\?\|/)) expect(text).toContain(part);
  },
);
