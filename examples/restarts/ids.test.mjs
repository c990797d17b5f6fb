// Finds the bug of ids.mjs: it forgets the last timestamp with its process. With vitest; with node:test, another first line; with Jest, none.
//
//   npx vitest run ids.test.mjs
import { test } from "vitest"; // or "node:test"; in Jest, test is global
import { restartMatrix } from "snowlease/testing";

test("no restart makes an ID twice", () => restartMatrix({ module: "./ids.mjs" }), 120_000);
