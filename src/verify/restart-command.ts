import { spawn } from "node:child_process";

/** How long the command may take, ms. */
const longest = 600_000;
/** Of what it says on stderr, so much is told. */
const mostSaid = 400;

/**
 * Runs a shell command to its end. What it has started may go on, and keep its pipes. Ctrl-C in a terminal does not reach it.
 * @throws Error for another exit code than 0, and where it takes longer than 10 min; it is killed then, and where `signal` aborts.
 */
export function runCommand(command: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, { shell: true, detached: true, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-mostSaid)));
    const end = (problem?: string): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      child.stderr.destroy();
      if (problem === undefined) return resolve();
      const words = said.trim().replace(/\s*\n\s*/g, " | ");
      reject(new Error(`the command \`${command}\` ${problem}${words === "" ? "" : `: ${words}`}`));
    };
    const kill = (problem: string): void => {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      end(problem);
    };
    const stop = (): void => kill("was interrupted");
    const timer = setTimeout(() => kill(`took longer than ${longest / 60_000} min`), longest);
    signal.addEventListener("abort", stop, { once: true });
    child.once("error", ({ message }) => end(`could not be run (${message})`));
    child.once("exit", (code, by) =>
      end(code === 0 ? undefined : `ended ${by === null ? `with code ${code}` : `by ${by}`}`),
    );
  });
}
