import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** What this machine says about its clock. */
export interface ClockSync {
  readonly synchronized: boolean;
  /** Who says so. */
  readonly source: string;
}

/** A program that may know, and how to read its answer: undefined where that is none. */
interface Source {
  readonly command: string;
  readonly args: readonly string[];
  readonly read: (answer: string) => boolean | undefined;
}

/** None of them needs root. The first one asks the kernel, which knows whatever the program is that sets the clock. */
const sources: readonly Source[] = [
  {
    command: "timedatectl",
    args: ["show", "--property=NTPSynchronized", "--value"],
    read: (answer) => ({ yes: true, no: false })[answer.trim()],
  },
  {
    command: "chronyc",
    args: ["-c", "tracking"],
    // The leap status is the last column; before there is a server to follow, it is "Not synchronised".
    read: (answer) => (answer.includes(",") ? !/,Not synchronised\s*$/.test(answer) : undefined),
  },
];

/** How long a program may take to answer, ms. */
const timeout = 2000;

const run = promisify(execFile);

/** Whether something keeps this machine's clock right; undefined where nobody says, as in most containers. Never rejects. */
export async function clockSync(): Promise<ClockSync | undefined> {
  const answers = await Promise.all(sources.map(ask));
  return answers.find((answer) => answer !== undefined);
}

async function ask({ command, args, read }: Source): Promise<ClockSync | undefined> {
  try {
    const { stdout } = await run(command, args, { timeout, env: { ...process.env, LC_ALL: "C" } });
    const synchronized = read(stdout);
    return synchronized === undefined ? undefined : { synchronized, source: command };
  } catch {
    return undefined;
  }
}
