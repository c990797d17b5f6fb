// Writes clients/vectors from our own code: `npm run vectors`. test/unit/vectors.test.ts fails where a file differs.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeVectors } from "../test/support/vectors.ts";
import { root } from "./setup.mjs";

for (const [file, vectors] of Object.entries(await makeVectors())) {
  writeFileSync(join(root, "clients/vectors", file), `${JSON.stringify(vectors, undefined, 2)}\n`);
}
