// In this very process: signals and the exit code need no passing on, and no wrapper can die and leave the daemon behind.
// `exec` in package.json is there for the same reason: npm signals its shell, and the shell would keep that to itself.

import { join } from "node:path";
import { ensureBuild, ensureDependencies, root } from "./setup.mjs";

ensureDependencies();
ensureBuild();

const main = join(root, "dist/cli/main.js");
process.argv = [process.execPath, main, "daemon", ...process.argv.slice(2)];
await import(main);
