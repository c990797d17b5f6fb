import { type CliProcess, type Sandbox, until } from "./cli.ts";

/** Restarts a command line at once whenever it ends, as a service manager does with `Restart=always`. */
export class Supervisor {
  /** Every process so far. The last one runs. */
  readonly runs: CliProcess[] = [];
  readonly #over: Promise<void>;
  #stopped = false;

  /** @param most starts, after which it gives up. A service that never starts would restart for ever. */
  constructor(sandbox: Sandbox, args: readonly string[], env?: Readonly<Record<string, string>>, most: number = 20) {
    const keep = async (): Promise<void> => {
      while (!this.#stopped && this.runs.length < most) {
        const run = sandbox.start(args, env);
        this.runs.push(run);
        await run.ended;
      }
    };
    this.#over = keep();
  }

  get last(): CliProcess {
    const last = this.runs.at(-1);
    if (last === undefined) throw new Error("Nothing was started.");
    return last;
  }

  /** The next line of the program, at whichever start it comes. If no start prints one, the error has what each start said. */
  async line(): Promise<string> {
    let line: string | undefined;
    await until(async () => {
      line = await this.last.line().catch(() => undefined);
      return line !== undefined || (this.last.isOver && (await this.#isOver()));
    });
    if (line !== undefined) return line;
    throw new Error(`No start succeeded:\n${this.runs.map(({ stderr }) => stderr).join("")}`);
  }

  /** Ends the service in an orderly way, as `systemctl stop`. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.last.signal("SIGTERM");
    await this.#over;
  }

  async #isOver(): Promise<boolean> {
    return Promise.race([this.#over.then(() => true), new Promise<false>((resolve) => setTimeout(resolve, 50, false))]);
  }
}
