import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How long the command may take, ms. */
const longest = 600_000;
/** How much of its stderr is reported, in characters. */
const mostSaid = 400;

/**
 * Runs a shell command to its end, also if Ctrl-C comes meanwhile: half a restart would leave the server down. The programs that the
 * command started may go on, and may write to its stderr.
 * @throws Error for another exit code than 0, and if the command takes longer than 10 min.
 */
export async function runCommand(command: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-restart-"));
  const file = join(folder, "stderr");
  const said = openSync(file, "w");
  try {
    const problem = await endOf(command, said);
    if (problem === undefined) return;
    const words = readFileSync(file, "utf8")
      .slice(-mostSaid)
      .trim()
      .replace(/\s*\n\s*/g, " | ");
    throw new Error(`the command \`${command}\` ${problem}${words === "" ? "" : `: ${words}`}`);
  } finally {
    closeSync(said);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How the command failed; undefined if it succeeded. */
function endOf(command: string, stderr: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(command, { shell: true, detached: true, stdio: ["ignore", "ignore", stderr] });
    const timer = setTimeout(() => resolve(`took longer than ${longest / 60_000} min`), longest);
    const end = (problem?: string): void => {
      clearTimeout(timer);
      resolve(problem);
    };
    child.once("error", ({ message }) => end(`could not be run (${message})`));
    child.once("exit", (code, signal) =>
      end(code === 0 ? undefined : `ended ${signal === null ? `with code ${code}` : `by ${signal}`}`),
    );
  });
}
