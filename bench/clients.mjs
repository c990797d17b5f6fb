// What an ID costs in the clients for other languages, beside other generators for the same language: one program a language, in which all
// take turns.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DaemonProcess } from "./daemon-process.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const languages = { Python: "python", Java: "java", Go: "go" };
const folder = fileURLToPath(new URL("clients/", import.meta.url));

export async function run() {
  const work = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  const port = await freePort();
  const args = ["--registry", `sqlite:${join(work, "registry.db")}`, "--listen", `127.0.0.1:${port}`];
  const daemon = await DaemonProcess.start(args);
  try {
    for (const [language, name] of Object.entries(languages)) measure(language, name, `http://127.0.0.1:${port}`);
  } finally {
    await daemon.end("SIGTERM");
    rmSync(work, { recursive: true });
  }
}

/** Runs a language's program, which prints a JSON line for each generator, in groups with ours first; says so where its tools are missing. */
function measure(language, name, registry) {
  const program = [join(folder, name, "run.sh"), registry];
  const { error, status, stdout, stderr } = spawnSync("sh", program, { encoding: "utf8" });
  if (error !== undefined || status !== 0) {
    printLine(`\n${language}: skipped. ${(error?.message ?? stderr).trim().split("\n").at(-1)}`);
    return;
  }
  const measured = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  for (const group of new Set(measured.map((row) => row.group))) {
    const [ours, ...others] = measured.filter((row) => row.group === group);
    const rows = [ours, ...others].map(({ subject, nsPerId }) => [
      subject,
      figure(nsPerId),
      figure(nsPerId / ours.nsPerId),
    ]);
    printTable([`An ID in ${language}`, group].filter(Boolean).join(", "), ["", "ns", "of ours"], rows);
  }
}
