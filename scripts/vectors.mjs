// Writes clients/vectors from our own code: `npm run vectors`. test/unit/vectors.test.ts fails if a file differs.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeVectors } from "../test/support/vectors.ts";
import { root } from "./setup.mjs";

for (const [file, vectors] of Object.entries(await makeVectors())) {
  writeFileSync(join(root, "clients/vectors", file), `${printed(vectors, "")}\n`);
}

/** JSON in few lines. Objects and lists take one line if they fit, and lists of numbers always do, so that a case takes few lines. */
function printed(value, indent) {
  const flat = JSON.stringify(value);
  const isFlat = typeof value !== "object" || (Array.isArray(value) && value.every((part) => typeof part === "number"));
  if (flat.length + indent.length <= 120 || isFlat) return flat;
  const inner = `${indent}  `;
  const parts = Array.isArray(value)
    ? value.map((part) => printed(part, inner))
    : Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}: ${printed(part, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${indent}${close}`;
}
