import type { Config } from "../../config/config.ts";
import type { Lender } from "../../lend.ts";
import { configInvalid, isSnowleaseError } from "../../id/errors.ts";
import type { Lease } from "../../lease/lease.ts";
import { noInit } from "../../ops/doctor/host.ts";
import { Child, endingSignals, passedSignals, StartFailure } from "../processes/child.ts";
import type { CliCommand } from "../command.ts";
import { errorLine } from "../exit-codes.ts";
import { type HeldLease, holdLease, waitRule } from "../processes/hold.ts";
import { lentName, passedOn, workerIdVariables } from "../../config/lent-lease.ts";
import { checkJava, javaOptions } from "../processes/java.ts";
import { addressOf, claimConfig } from "../settings.ts";
import { signalExitCode } from "../processes/signals.ts";

export const exec: CliCommand = {
  name: "exec",
  summary: "Claim a worker ID, and run a program with it.",
  details: [
    "The program gets the worker ID in SNOWLEASE_WORKER_ID, WESTID_WORKERID and WORKER_ID, and SNOWLEASE_DATACENTER_ID if the layout has a datacenter. WORKER_ID is then the worker field alone.",
    waitRule,
    "A program that uses Snowlease itself borrows this lease over SNOWLEASE_LEASE_SOCKET, also in several processes. It always stays inside the window. A program without a namespace of its own borrows the namespace of this lease. A program that asks for another worker ID, pool or layout is refused. A program that names another registry by flag or option claims there. A program that names another namespace claims it in the registry that a flag, an option or the environment names, and is refused without one.",
    "To protect any other generator, the command must stop the program. When the lease is lost or its window is about to end, the program gets SIGTERM, and SIGKILL before the window ends. The exit code is then 4. Without a terminal, the program has its own process group, which is stopped as a whole, also after the program itself has ended. On a terminal, only the program is stopped. A signal does not reach a process that left the group (setsid), or that still runs after this process got SIGKILL or SIGSTOP. Let the service manager end all of them together.",
    "A program with -Dwestid.workerId and another number on its command line is refused. Without --java, so is a program with it in JAVA_TOOL_OPTIONS, JDK_JAVA_OPTIONS or _JAVA_OPTIONS. Scripts and files of arguments are not checked. Use --java for them.",
    `Passes on ${passedSignals.join(", ")}. The exit code is that of the program. As in a shell, it is 128 + n after signal n, 127 if the program does not exist, and 126 if the program cannot run. In the last two cases, the worker ID is free again at once. An error of Snowlease has its usual exit code.`,
    "All output comes from the program. So --json in front of the program changes nothing.",
  ],
  examples: [
    "snowlease exec -- node server.js",
    "snowlease exec --registry http://127.0.0.1:7070 --window 30s --java -- java -jar app.jar",
    "snowlease exec -- sh -c 'echo $SNOWLEASE_WORKER_ID'",
  ],
  settings: "cli",
  without: ["onLost", "maxTell", "mode", "spread"],
  flags: {
    "--java":
      "Also add -Dwestid.workerId=N to JAVA_TOOL_OPTIONS and _JAVA_OPTIONS, the last of which is stronger than a JVM's own flags.",
  },
  operands: { name: "-- PROGRAM [ARGUMENT…]", least: 1, most: Infinity, program: true },

  async run(invocation) {
    if (invocation.operands[0] === "") {
      throw configInvalid("Expected the name of a program, got an empty text; see `snowlease exec --help`.");
    }
    const config = await claimConfig(invocation);
    if (process.pid === 1) process.emitWarning(noInit, { type: "SnowleaseWarning", code: "SNOWLEASE_NO_INIT" });
    const interruption = new AbortController();
    let child: Child | undefined;
    const take = (signal: NodeJS.Signals): void => {
      if (child !== undefined) child.pass(signal);
      else if (endingSignals.includes(signal)) interruption.abort(signalExitCode(signal));
    };
    for (const signal of passedSignals) process.on(signal, take);

    const stop = interruption.signal;
    try {
      const held = await holdLease(config, stop);
      const { lease } = held;
      lease.on("scope", ({ text }) => void process.stderr.write(`snowlease: Worker ${lease.workerId}. ${text}\n`));
      try {
        // A borrowed lease has a lender already, which also serves this program.
        const java = invocation.flags.has("java");
        checkJava(invocation.operands, process.env, lease.workerId, java);
        await using lender = config.registryFrom === "borrowed" ? undefined : await lendAll(lease, config);
        stop.throwIfAborted();
        const env = {
          ...(lender?.env ?? passedOn(process.env, lease.namespace)),
          ...workerIdVariables(lease.workerId),
        };
        child = new Child(invocation.operands, environment(lease, env, java));
        const over = new AbortController();
        const end = await Promise.race([child.ended, held.endangered(over.signal)]);
        over.abort();
        await child.stop(held.grace);
        if (!isSnowleaseError(end)) return end;
        // The lease is lost or the registry does not answer: let the rest of the window pass.
        await lease.orphan();
        throw end;
      } finally {
        await giveBack(held, child?.hasRun === true);
      }
    } catch (error) {
      if (stop.aborted && error === stop.reason) return stop.reason as number;
      if (!(error instanceof StartFailure)) throw error;
      process.stderr.write(`${errorLine(error)}\n`);
      return error.exitCode;
    }
  },
};

/** Lends a lease. Programs without Snowlease may use its worker ID, too, so it is unknown which IDs were made. */
async function lendAll(lease: Lease, config: Config): Promise<Lender> {
  const [{ lendOverSocket }, { SharedUsageTracker }] = await Promise.all([
    import("../../lend.ts"),
    import("../../sharing/usage-tracker.ts"),
  ]);
  return lendOverSocket(lease, new SharedUsageTracker(lease, false), lentName(addressOf(config)));
}

function environment({ workerId, layout }: Lease, added: NodeJS.ProcessEnv, java: boolean): NodeJS.ProcessEnv {
  const { datacenter, worker = workerId } = layout.split(workerId);
  return {
    ...process.env,
    ...added,
    WORKER_ID: String(datacenter === undefined ? workerId : worker),
    ...(datacenter !== undefined && { SNOWLEASE_DATACENTER_ID: String(datacenter) }),
    ...(java && javaOptions(process.env, workerId)),
  };
}

/** Reports a failed release on stderr, but keeps the program's exit code. */
async function giveBack(held: HeldLease, hasRun: boolean): Promise<void> {
  try {
    await held.giveBack(hasRun ? "used" : "unused");
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    process.stderr.write(`${errorLine(error)}\n`);
  }
}
