// What an ID costs in the clients for other languages, beside other generators for the same language: one program a language, in which all take turns.

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
  const daemon = await DaemonProcess.start([
    "--registry",
    `sqlite:${join(work, "registry.db")}`,
    "--listen",
    `127.0.0.1:${port}`,
  ]);
  try {
    for (const [language, name] of Object.entries(languages))
      print(language, measure(name, `http://127.0.0.1:${port}`));
  } finally {
    await daemon.end("SIGTERM");
    rmSync(work, { recursive: true });
  }
}

/** Runs a language's program; undefined where its tools are missing. */
function measure(name, registry) {
  const { error, status, stdout, stderr } = spawnSync("sh", [join(folder, name, "run.sh"), registry], {
    encoding: "utf8",
  });
  if (error !== undefined || status !== 0) {
    printLine(`\n${name}: skipped. ${(error?.message ?? stderr).trim().split("\n").at(-1)}`);
    return undefined;
  }
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

/** A row for each subject; the ratio is to ours with the same number of threads and bits of sequence. */
function print(language, measured) {
  if (measured === undefined) return;
  const rows = measured.map((row) => {
    const { subject, threads, nsPerId, sequenceBits } = row;
    const isOurs = (other) => other.subject.startsWith("snowlease") && other.threads === threads;
    const same =
      measured.find((other) => isOurs(other) && other.sequenceBits === sequenceBits) ?? measured.find(isOurs);
    return [subject, String(threads), String(sequenceBits ?? ""), figure(nsPerId), figure(nsPerId / same.nsPerId)];
  });
  printTable(`An ID in ${language}`, ["", "threads", "bits of sequence", "ns", "of ours"], rows);
}
