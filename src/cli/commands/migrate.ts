import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { leaseDefaults, type Config } from "../../config/config.ts";
import { systemClock } from "../../lease/clock.ts";
import { configInvalid, isSnowleaseError, shown, SnowleaseError, timeText, withSource } from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { parsePool } from "../../id/notation.ts";
import type { Registry } from "../../rule/registry.ts";
import { applyPlan, type MigrationRequest, revertPlan, unpinAll } from "../../ops/migrate/apply.ts";
import { hostText, makePlan, type Plan } from "../../ops/migrate/plan.ts";
import { planText, readPlan } from "../../ops/migrate/plan-file.ts";
import { type SourceContents, sourceKinds } from "../../ops/migrate/source.ts";
import { type Finish, migrationStatus, type MigrationStatus, prepareFinish } from "../../ops/migrate/status.ts";
import type { CliCommand, CommandFlag, Invocation } from "../command.ts";
import { printable } from "../../id/printable.ts";
import { utf8Text } from "../../id/utf8.ts";
import { numbersOf, readAgain, readFirst, sharesStore, sourceLayoutOf, textOf } from "../migration/source.ts";
import { mostShown, outlookText, statusText } from "../migration/text.ts";
import { Progress } from "../terminal/progress.ts";
import { addressOf, registryConfig, registrySettings, storedLayout, withRegistry } from "../settings.ts";
import { onInterrupt, signalExitCode } from "../processes/signals.ts";
import { integerOf, wordOf } from "../values.ts";

const defaultFile = "snowlease-migration.json";
/** Between two looks at how far a fleet is, ms. */
const interval = 2000;

const steps = { plan: planStep, apply: applyStep, status: statusStep, finish: finishStep } as const;
type MigrationStep = keyof typeof steps;

interface StepFlag extends CommandFlag {
  /** The steps that take it. */
  readonly steps: readonly MigrationStep[];
}

function stepFlag(steps: readonly MigrationStep[], name: string, value: string | undefined, text: string): StepFlag {
  return { steps, name, value, description: `${steps.join(", ")}: ${text}` };
}

const stepFlags: readonly StepFlag[] = [
  stepFlag(["plan"], "from", "SOURCE", `${sourceKinds.join(", ")}; each but ip needs a URL after it.`),
  stepFlag(
    ["plan", "apply", "status", "finish"],
    "hosts",
    "FILE",
    "with `--from ip`, one host per line: an address, a range (10.0.0.0/24), a name and an address, or an address and its names.",
  ),
  stepFlag(
    ["plan"],
    "source-layout",
    "LAYOUT",
    "the layout of the old IDs, where the old programs do not use their default. Without `--layout`, it is the layout of the namespace, too.",
  ),
  stepFlag(
    ["plan"],
    "worker-bits",
    "BITS",
    "how many bits the worker IDs of the old scheme have; default: as many as in its layout.",
  ),
  stepFlag(
    ["plan"],
    "headroom",
    "COUNT",
    "with `--from leaf` or `uid-generator`, how many worker IDs above the highest to keep for the next starts of the old scheme; default 20 % of the used ones, at least 16.",
  ),
  stepFlag(["plan"], "pool", "RANGE", "the worker IDs to lease while the fleet moves; all others are pinned."),
  stepFlag(
    ["apply", "status", "finish"],
    "source",
    "URL",
    "the source to read again; default: the plan's source, where it needs no login.",
  ),
  stepFlag(["plan"], "out", "FILE", `the plan file; default ${defaultFile}.`),
  stepFlag(["apply"], "renumber", undefined, "pin for no host, so that each host gets another worker ID."),
  stepFlag(["apply"], "revert", undefined, "remove the pins."),
  stepFlag(["status"], "watch", undefined, "go on until all hosts have moved."),
  stepFlag(
    ["apply", "finish"],
    "force",
    undefined,
    "finish even if hosts have not moved; with `--revert`, even if worker IDs are leased.",
  ),
];

export const migrate: CliCommand = {
  name: "migrate",
  summary:
    "Move a fleet from worker IDs of another scheme (IP addresses, westid, Leaf, …) to leased ones, host by host.",
  details: [
    `plan reads the worker IDs of the old scheme, lists those that two hosts share, and writes a plan file. It changes nothing. apply PLAN pins those worker IDs: each for the host that uses it, a shared one for no host. PLAN is ${defaultFile} by default.`,
    "Then stop each host's old program and start it with this registry, hosts with a shared worker ID first. status shows the progress; finish removes the pins when all hosts have moved. apply --revert removes them at any time; while worker IDs are leased it requires --force. The source is only read.",
    "The old scheme could hand out a leased worker ID. So plan leases none that the scheme can still reach: of Leaf and uid-generator those above the highest and the headroom; of westid and CosId, which hand out released worker IDs again, none of their own, so that plan refuses and names the alternatives. apply, status and finish read the source again: status shows programs that have started since the plan, and for a worker ID in double use both its users; then finish refuses.",
    "A host keeps its worker ID where the source gives that to no other host (by its address, and Leaf). Until finish, its window opens maxClockSkew later at each start. The registry knows a host by its address, see --ip. All other hosts get a new worker ID.",
  ],
  examples: [
    "snowlease migrate plan --from ip --hosts hosts.txt --registry redis://localhost:6379",
    "snowlease migrate plan --from leaf zookeeper://localhost:2181?name=orders --out leaf.json",
    "snowlease migrate apply --registry redis://localhost:6379",
    "snowlease migrate status --watch --registry redis://localhost:6379",
    "snowlease migrate finish --registry redis://localhost:6379",
  ],
  settings: [...registrySettings, "layout", "window"],
  flags: stepFlags,
  operands: { name: "plan [URL] | apply|status|finish [PLAN]", least: 1, most: 2 },

  async run(invocation) {
    const { operands, flags } = invocation;
    const [word = ""] = operands;
    if (!Object.hasOwn(steps, word)) {
      throw configInvalid(`Expected plan, apply, status or finish, got ${shown(word)}; name one.`);
    }
    const step = word as MigrationStep;
    const misplaced = stepFlags.find(({ name, steps }) => flags.has(name) && !steps.includes(step));
    if (misplaced !== undefined) {
      throw configInvalid(`Expected \`migrate ${step}\` without \`--${misplaced.name}\`; leave it out.`);
    }
    return steps[step](invocation);
  },
};

async function planStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  const from = wordOf(invocation, "from", sourceKinds);
  if (from === undefined) throw configInvalid(`Expected \`--from\` one of ${sourceKinds.join(", ")}.`);
  const file = String(flags.get("out") ?? defaultFile);
  // `--pool` is within the layout of the plan, which is not known yet.
  const others = new Map([...flags].filter(([name]) => name !== "pool"));
  const config = await registryConfig({ ...invocation, flags: others });
  const { namespace } = config;
  const made = async (registry?: Registry): Promise<ReturnType<typeof makePlan>> => {
    const now = registry === undefined ? Date.now() : (await registry.ping()).clock;
    const info = await registry?.describe(namespace);
    const own = info && storedLayout(info, config);
    const sourceLayout = sourceLayoutOf(invocation, from, own ?? config.layout, now);
    const layout = own ?? (config.sources.layout === undefined ? sourceLayout : config.layout);
    const numbers = numbersOf(invocation, sourceLayout);
    const { findings, source } = await readFirst(invocation, from, sourceLayout, numbers, config);
    for (const remark of findings.remarks.slice(0, mostShown))
      process.stderr.write(`snowlease: ${printable(remark)}\n`);
    const shares = sharesStore(invocation, from, config);
    const about = { namespace, layout, from, source, sourceLayout, numbers, sharesStore: shares };
    return makePlan(findings, { ...about, ...wishesOf(invocation), now, registry });
  };
  const { isEmpty } = await import("../../registries/index.ts");
  const isThere = config.registryFrom === "named" && !isEmpty(addressOf(config));
  const { plan, outlook } = isThere ? await withRegistry(config, made) : await made();
  write(file, plan);
  if (json) return output.json({ file, ...outlook, hosts: plan.hosts });
  for (const { workerId, hosts } of outlook.collisions.slice(0, mostShown)) {
    await output.add(`${printable(`Worker ${workerId} is used by ${hosts.join(", ")}: move one of them first.`)}\n`);
  }
  await output.line(outlookText(outlook, plan, file));
}

/** The wishes for the worker IDs to lease. */
function wishesOf({ flags }: Invocation): { readonly headroom?: number; readonly pool?: PoolBounds } {
  const [headroom, pool] = [flags.get("headroom"), flags.get("pool")];
  return {
    ...(headroom !== undefined && { headroom: integerOf(headroom, "`--headroom`", 0, 2 ** 31 - 1) }),
    ...(pool !== undefined && { pool: withSource("--pool", () => parsePool(String(pool))) }),
  };
}

/** Writes a plan atomically; replaces nothing but another plan. */
function write(file: string, plan: Plan): void {
  try {
    try {
      readPlan(utf8Text(readFileSync(file)) ?? "", file);
    } catch (error) {
      if (isSnowleaseError(error)) throw error;
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    const beside = `${file}.${process.pid}.tmp`;
    writeFileSync(beside, planText(plan), { flag: "wx" });
    renameSync(beside, file);
  } catch (error) {
    const why = isSnowleaseError(error) ? "the file is not a plan" : (error as Error).message;
    throw configInvalid(`The plan cannot be written to ${file} (${why}); name another with \`--out\`.`);
  }
}

/** Reads the source of a plan once more. */
type Again = () => Promise<SourceContents>;

/** The same, where a step can do without: with a line on the terminal why. */
async function ifReadable(again: Again): Promise<SourceContents | undefined> {
  try {
    return await again();
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    process.stderr.write(
      `snowlease: ${printable(`The source is not read again, so programs that have started since the plan are unknown: ${error.message}`)}\n`,
    );
    return undefined;
  }
}

/** The plan that is named, its registry, and a progress bar. */
async function withPlan<Result>(
  invocation: Invocation,
  phase: string,
  use: (request: MigrationRequest, config: Config, progress: Progress, again: Again) => Promise<Result>,
): Promise<Result> {
  const [, file = defaultFile] = invocation.operands;
  const plan = readPlan(textOf(file), file);
  const config = await registryConfig(invocation);
  const named = config.sources.namespace === undefined ? undefined : config.namespace;
  const progress = new Progress();
  const onProgress = (done: number, of: number): void => progress.show(phase, `${done} of ${of}`, done / of);
  try {
    const again = (): Promise<SourceContents> => readAgain(invocation, plan, config);
    return await withRegistry(config, (registry) =>
      use({ registry, plan, named, onProgress }, config, progress, again),
    );
  } finally {
    progress.end();
  }
}

async function applyStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  if (flags.has("revert")) {
    if (flags.has("renumber")) throw configInvalid("Expected `--revert` without `--renumber`; leave one out.");
    const reverted = await withPlan(invocation, "unpinned", (request) => revertPlan(request, flags.has("force")));
    if (json) return output.json(reverted);
    await output.line(`Removed ${reverted.unpinned} pins.`);
    if (reverted.live === 0) return;
    return output.line(
      `${reverted.live} worker IDs are leased: a claim from now on may get one that a host of the old scheme uses. Move those hosts back first, or apply again.`,
    );
  }
  if (flags.has("force")) throw configInvalid("Expected `--force` of `migrate apply` with `--revert`; leave it out.");
  const applied = await withPlan(invocation, "pinned", async (request, _config, _progress, again) => {
    return applyPlan({ ...request, findings: await ifReadable(again) }, flags.has("renumber"));
  });
  if (json) return output.json(applied);
  const { pinned, unchanged, others, left } = applied;
  for (const { workerId, reason } of others.slice(0, mostShown)) {
    await output.add(
      `${printable(`Worker ${workerId} is already pinned (${reason}): unchanged, and no host takes it over.`)}\n`,
    );
  }
  if (left.length > 0)
    await output.add(
      `Pins of an earlier plan: ${left.length}; if they are wrong, first apply that plan with --revert.\n`,
    );
  await output.line(
    `Pinned: ${pinned}. Pinned before: ${unchanged}. Now move the hosts, one by one; \`snowlease migrate status\` shows the progress.`,
  );
}

async function statusStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  const print = (status: MigrationStatus): Promise<void> =>
    json ? output.json(status) : output.line(statusText(status));
  return withPlan(invocation, "moved", async (request, _config, progress, again) => {
    const look = async (): Promise<MigrationStatus> => {
      return migrationStatus({ ...request, findings: await ifReadable(again) });
    };
    if (!flags.has("watch")) return print(await look());
    const stopped = onInterrupt();
    const over = AbortSignal.any([stopped, output.closed]);
    let before = "";
    for (;;) {
      const status = await look();
      const { hosts, moved, old, conflict } = status;
      const line = `${moved} of ${hosts.length} hosts moved, ${old} on the old scheme, ${conflict} in conflict`;
      progress.show(line, "", moved / hosts.length);
      if (json && line !== before) await output.json(status);
      else if (!json && !process.stderr.isTTY && line !== before) await output.line(`${line}.`);
      before = line;
      if (moved === hosts.length || output.closed.aborted) break;
      await systemClock.sleep(interval, { signal: over });
      if (stopped.aborted) return signalExitCode(stopped.reason as NodeJS.Signals);
    }
    progress.end();
    if (!json) await output.line("All hosts have moved; `snowlease migrate finish` removes the pins.");
  });
}

async function finishStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  const force = flags.has("force");
  return withPlan(invocation, "unpinned", async (request, config, progress, again) => {
    const { registry, plan, onProgress } = request;
    const { window } = leaseDefaults(config, false, registry.kind);
    const look = async (): Promise<Finish> => {
      const findings = force ? await ifReadable(again) : await again().catch(unreadable);
      const finish = await prepareFinish({ ...request, findings }, window, force);
      if (!force) checkMoved(finish.status);
      return finish;
    };
    const { status, readyAt, pins: due, staying: stays } = await look();
    const wait = due.length === 0 ? 0 : readyAt - status.clock;
    if (wait > 0 && !json)
      await output.line(
        `The pins are removed at ${timeText(readyAt)}: one window and maxClockSkew after the latest end of an old program.`,
      );
    const stopped = onInterrupt();
    for (let now = status.clock; now < readyAt && wait > 0; { clock: now } = await registry.ping()) {
      progress.show("waiting,", `${Math.ceil((readyAt - now) / 1000)} s left`, 1 - (readyAt - now) / wait);
      await systemClock.sleep(Math.min(500, readyAt - now), { signal: stopped });
      if (stopped.aborted) return signalExitCode(stopped.reason as NodeJS.Signals);
    }
    // A program may have started the old way meanwhile.
    const { status: after, pins, staying } = wait > 0 ? await look() : { status, pins: due, staying: stays };
    const left = after.hosts.filter(({ state }) => state !== "moved");
    const unpinned = await unpinAll(registry, plan.namespace, pins, onProgress);
    progress.end();
    if (json) return output.json({ unpinned, staying, left: left.length });
    const stay = staying === 0 ? "" : ` ${staying} stay pinned forever.`;
    await output.line(
      `Finished: removed ${unpinned} pins.${stay} From now on, start no program of the old scheme: its worker IDs are leased.`,
    );
  });
}

/** @throws SnowleaseError WORKER_ID_HELD where hosts have not moved, or share a worker ID with a lease. */
function checkMoved({ hosts }: MigrationStatus): void {
  const left = hosts.filter(({ state }) => state !== "moved");
  const rivals = hosts.find(({ state }) => state === "conflict");
  if (left.length === 0) return;
  const some = left.slice(0, 5).map(hostText).join(", ");
  const conflict =
    rivals === undefined
      ? ""
      : `; worker ${rivals.workerId} is used by ${hostText(rivals)} and ${(rivals.rivals ?? []).join(", ")}`;
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    printable(
      `${left.length} of ${hosts.length} hosts have not moved (${some}${left.length > 5 ? ", …" : ""})${conflict}: move them, or remove their pins nevertheless with \`--force\`.`,
    ),
  );
}

/** Finishing without a look at the source takes the operator's word. */
function unreadable(error: unknown): never {
  if (!isSnowleaseError(error)) throw error;
  throw new SnowleaseError(
    error.code,
    `It is unknown whether programs of the old scheme have started: ${error.message.replace(/\.$/, "")}; or, if none can start any more, finish with \`--force\`.`,
    error.details,
    { cause: error },
  );
}
