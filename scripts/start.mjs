// The daemon runs in this process, so nothing has to pass on signals and the exit code, and no wrapper can die and leave the daemon
// behind. package.json uses `exec` for the same reason: npm sends signals to its shell, and the shell would not pass them on.

import { join } from "node:path";
import { ensureBuild, ensureDependencies, root } from "./setup.mjs";

ensureDependencies();
ensureBuild();

const main = join(root, "dist/cli/main.js");
process.argv = [process.execPath, main, "daemon", ...process.argv.slice(2)];
await import(main);
