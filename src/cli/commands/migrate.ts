import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { leaseDefaults, type Config } from "../../config/config.ts";
import { systemClock } from "../../clock.ts";
import {
  configInvalid,
  counted,
  isSnowleaseError,
  shown,
  SnowleaseError,
  timeText,
  withSource,
} from "../../id/errors.ts";
import type { PoolBounds } from "../../id/pool-bounds.ts";
import { parsePool } from "../../id/notation.ts";
import type { Registry } from "../../rule/registry.ts";
import { applyPlan, type MigrationRequest, revertPlan, unpinAll } from "../../ops/migrate/apply.ts";
import { hostText, makePlan, type Plan } from "../../ops/migrate/plan.ts";
import { planText, readPlan } from "../../ops/migrate/plan-file.ts";
import { type SourceContents, sourceKinds } from "../../ops/migrate/source.ts";
import { type Finish, migrationStatus, type MigrationStatus, prepareFinish } from "../../ops/migrate/status.ts";
import { flagShape } from "../arguments.ts";
import type { CliCommand, Invocation } from "../command.ts";
import { printable } from "../../id/printable.ts";
import { utf8Text } from "../../id/utf8.ts";
import { numbersOf, readAgain, readFirst, sharesStore, sourceLayoutOf, textOf } from "../migration/source.ts";
import { mostShown, outlookText, statusText } from "../migration/text.ts";
import { Progress } from "../terminal/progress.ts";
import {
  addressOf,
  namedRegistryConfig,
  namedRegistryRule,
  registrySettings,
  storedLayout,
  withRegistry,
} from "../settings.ts";
import { onInterrupt } from "../processes/signals.ts";
import { integerOf, wordOf } from "../values.ts";

const defaultFile = "snowlease-migration.json";
/** The time between two looks at the progress of a fleet, ms. */
const interval = 2000;

const steps = { plan: planStep, apply: applyStep, status: statusStep, finish: finishStep } as const;
type MigrationStep = keyof typeof steps;

/** A flag as `--help` shows it, with the steps that take it and its meaning. */
const stepFlags: Readonly<Record<string, readonly [steps: readonly MigrationStep[], meaning: string]>> = {
  "--from SOURCE": [["plan"], `${sourceKinds.join(", ")}; each but ip needs a URL after it.`],
  "--hosts FILE": [
    ["plan", "apply", "status", "finish"],
    "with `--from ip`, one host per line: an address, a range (10.0.0.0/24), a name and an address, or an address and its names.",
  ],
  "--source-layout LAYOUT": [
    ["plan"],
    "the layout of the old IDs, where the old programs do not use their default. Without `--layout`, it is the layout of the namespace, too.",
  ],
  "--worker-bits BITS": [
    ["plan"],
    "how many bits the worker IDs of the old scheme have; default: as many as in its layout.",
  ],
  "--headroom COUNT": [
    ["plan"],
    "with `--from leaf` or `uid-generator`, how many worker IDs above the highest to keep for the next starts of the old scheme; default 20 % of the used ones, at least 16.",
  ],
  "--pool RANGE": [["plan"], "the worker IDs to lease while the fleet moves; all others are pinned."],
  "--source URL": [
    ["apply", "status", "finish"],
    "the source to read again; default: the plan's source, where it needs no login.",
  ],
  "--out FILE": [["plan"], `the plan file; default ${defaultFile}.`],
  "--renumber": [["apply"], "pin for no host, so that each host gets another worker ID."],
  "--revert": [["apply"], "remove the pins."],
  "--watch": [["status"], "go on until all hosts have moved and run."],
  "--force": [
    ["apply", "finish"],
    "finish even if hosts have not moved, or are not running now; with `--revert`, even if worker IDs are leased.",
  ],
};

export const migrate: CliCommand = {
  name: "migrate",
  summary:
    "Move a fleet from worker IDs of another scheme (IP addresses, westid, Leaf, …) to leased ones, host by host.",
  details: [
    `plan reads the worker IDs of the old scheme, lists those that two hosts share, and writes a plan file. It changes nothing. apply PLAN pins these worker IDs. It pins each worker ID for the host that uses it, and a shared one for no host. PLAN is ${defaultFile} by default.`,
    "Then stop each host's old program and start it with this registry. Begin with hosts that share a worker ID. status shows the progress. A host has moved when it uses the window of a lease. status lists a moved host that does not run now separately, because it may have gone back to the old program. finish removes the pins when all hosts have moved and run. apply --revert removes the pins at any time. While worker IDs are leased, it needs --force. No step writes to the source.",
    "The old scheme must not hand out a leased worker ID. So plan leases only worker IDs that the scheme cannot reach. With Leaf and uid-generator, these are the worker IDs above the highest one and the headroom. westid and CosId hand out released worker IDs again, so none of theirs is safe. Then plan refuses, and names the alternatives. apply, status and finish read the source again. status shows programs that started since the plan, and both users of a worker ID in double use. finish refuses in that case.",
    namedRegistryRule,
    "A host keeps its worker ID if the source gives it to no other host. That is so for addresses and for Leaf. All other hosts get a new worker ID. Until finish, the window of a kept worker ID opens maxClockSkew later at each start, and the start waits for it. The registry identifies a host by its address, see --ip.",
  ],
  examples: [
    "snowlease migrate plan --from ip --hosts hosts.txt --registry redis://localhost:6379",
    "snowlease migrate plan --from leaf zookeeper://localhost:2181?name=orders --out leaf.json --registry redis://localhost:6379",
    "snowlease migrate apply --registry redis://localhost:6379",
    "snowlease migrate status --watch --registry redis://localhost:6379",
    "snowlease migrate finish --registry redis://localhost:6379",
  ],
  settings: [...registrySettings, "layout", "window"],
  flags: Object.fromEntries(
    Object.entries(stepFlags).map(([shown, [steps, meaning]]) => [shown, `${steps.join(", ")}: ${meaning}`]),
  ),
  operands: { name: "plan [URL] | apply|status|finish [PLAN]", least: 1, most: 2 },

  async run(invocation) {
    const { operands, flags } = invocation;
    const [word = ""] = operands;
    if (!Object.hasOwn(steps, word)) {
      throw configInvalid(`Expected plan, apply, status or finish, got ${shown(word)}; name one.`);
    }
    const step = word as MigrationStep;
    for (const [shown, [takers]] of Object.entries(stepFlags)) {
      const { name } = flagShape(shown);
      if (!flags.has(name) || takers.includes(step)) continue;
      throw configInvalid(`Expected \`migrate ${step}\` without \`--${name}\`; leave it out.`);
    }
    return steps[step](invocation);
  },
};

async function planStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  const from = wordOf(invocation, "from", sourceKinds);
  if (from === undefined)
    throw configInvalid(
      `Expected \`--from\` to be one of ${sourceKinds.join(", ")}, got nothing; name the present assignment.`,
    );
  const file = String(flags.get("out") ?? defaultFile);
  // `--pool` must lie in the layout of the plan, which is not known yet.
  const others = new Map([...flags].filter(([name]) => name !== "pool"));
  const config = await namedRegistryConfig({ ...invocation, flags: others });
  const { namespace } = config;
  const made = async (registry?: Registry): ReturnType<typeof makePlan> => {
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
  const isThere = !isEmpty(addressOf(config));
  const { plan, outlook } = isThere ? await withRegistry(config, made) : await made();
  write(file, plan);
  if (json) return output.json({ file, ...outlook, hosts: plan.hosts });
  for (const { workerId, hosts } of outlook.collisions.slice(0, mostShown)) {
    await output.add(`${printable(`Worker ${workerId} is used by ${hosts.join(", ")}: move one of them first.`)}\n`);
  }
  await output.line(outlookText(outlook, plan, file));
}

/** What the user wishes for the worker IDs to lease. */
function wishesOf({ flags }: Invocation): { readonly headroom?: number; readonly pool?: PoolBounds } {
  const [headroom, pool] = [flags.get("headroom"), flags.get("pool")];
  return {
    ...(headroom !== undefined && { headroom: integerOf(headroom, "`--headroom`", 0, 2 ** 31 - 1) }),
    ...(pool !== undefined && { pool: withSource("--pool", () => parsePool(String(pool))) }),
  };
}

/** Writes a plan atomically. Replaces a file only if it is a plan. */
function write(file: string, plan: Plan): void {
  try {
    if (existsSync(file)) readPlan(utf8Text(readFileSync(file)) ?? "", file);
    const beside = `${file}.${process.pid}.tmp`;
    writeFileSync(beside, planText(plan), { flag: "wx" });
    renameSync(beside, file);
  } catch (error) {
    const why = isSnowleaseError(error) ? "the file is not a plan" : (error as Error).message;
    throw configInvalid(`The plan cannot be written to ${file} (${why}); name another with \`--out\`.`);
  }
}

/** What a step does with a plan. */
interface PlanRun extends MigrationRequest {
  readonly config: Config;
  readonly progress: Progress;
  readonly onProgress: (done: number, of: number) => void;
  /** Reads the source of the plan once more. */
  readonly again: () => Promise<SourceContents>;
}

/** The present source, for a step that can do without it. If the source cannot be read, prints the reason and returns undefined. */
async function ifReadable({ again }: PlanRun): Promise<SourceContents | undefined> {
  try {
    return await again();
  } catch (error) {
    if (!isSnowleaseError(error)) throw error;
    const what = `The source is not read again, so programs that have started since the plan are unknown: ${error.message}`;
    process.stderr.write(`snowlease: ${printable(what)}\n`);
    return undefined;
  }
}

/** Runs a step on the named plan and its registry. */
async function withPlan<Result>(
  invocation: Invocation,
  phase: string,
  use: (run: PlanRun) => Promise<Result>,
): Promise<Result> {
  const [, file = defaultFile] = invocation.operands;
  const plan = readPlan(textOf(file), file);
  const config = await namedRegistryConfig(invocation);
  const named = config.sources.namespace === undefined ? undefined : config.namespace;
  const progress = new Progress();
  const onProgress = (done: number, of: number): void => progress.show(phase, `${done} of ${of}`, done / of);
  const again = (): Promise<SourceContents> => readAgain(invocation, plan, config);
  try {
    return await withRegistry(config, (registry) => {
      return use({ registry, plan, named, config, progress, onProgress, again });
    });
  } finally {
    progress.end();
  }
}

async function applyStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  if (flags.has("revert")) return revertStep(invocation);
  if (flags.has("force")) throw configInvalid("Expected `--force` of `migrate apply` with `--revert`; leave it out.");
  const applied = await withPlan(invocation, "pinned", async (run) => {
    return applyPlan({ ...run, findings: await ifReadable(run) }, flags.has("renumber"));
  });
  if (json) return output.json(applied);
  const { pinned, unchanged, others, left } = applied;
  for (const { workerId, reason } of others.slice(0, mostShown)) {
    const text = `Worker ${workerId} is already pinned (${reason}): unchanged, and no host takes it over.`;
    await output.add(`${printable(text)}\n`);
  }
  if (left.length > 0) {
    await output.line(
      `Pins of an earlier plan: ${left.length}; if they are wrong, first apply that plan with --revert.`,
    );
  }
  await output.line(
    `Pinned: ${pinned}. Pinned before: ${unchanged}. Now move the hosts, one by one; \`snowlease migrate status\` shows the progress.`,
  );
}

async function revertStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  if (flags.has("renumber")) throw configInvalid("Expected `--revert` without `--renumber`; leave one out.");
  const reverted = await withPlan(invocation, "unpinned", (run) => revertPlan(run, flags.has("force")));
  if (json) return output.json(reverted);
  const { unpinned, live } = reverted;
  await output.line(`Removed ${counted(unpinned, "pin")}.`);
  if (live === 0) return;
  await output.line(
    `${counted(live, "worker ID is", "worker IDs are")} leased: a claim from now on may get one that a host of the old scheme uses. Move those hosts back first, or apply again.`,
  );
}

async function statusStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  return withPlan(invocation, "moved", async (run) => {
    const look = async (): Promise<MigrationStatus> => migrationStatus({ ...run, findings: await ifReadable(run) });
    if (!flags.has("watch")) {
      const status = await look();
      return json ? output.json(status) : output.line(statusText(status));
    }
    const stopped = onInterrupt();
    const over = AbortSignal.any([stopped, output.closed]);
    let before = "";
    for (;;) {
      const status = await look();
      const { hosts, moved, stopped: idle, old, conflict } = status;
      const resting = idle > 0 ? ` ${idle} moved and not running now,` : "";
      const line = `${moved} of ${counted(hosts.length, "host")} moved,${resting} ${old} on the old scheme, ${conflict} in conflict`;
      if (process.stderr.isTTY) run.progress.show(line, "", moved / hosts.length);
      if (json && line !== before) await output.json(status);
      else if (!json && !process.stderr.isTTY && line !== before) await output.line(`${line}.`);
      before = line;
      if (moved === hosts.length || output.closed.aborted) break;
      await systemClock.sleep(interval, { signal: over });
      if (stopped.aborted) return stopped.reason as number;
    }
    run.progress.end();
    if (!json) await output.line("All hosts have moved and run; `snowlease migrate finish` removes the pins.");
  });
}

async function finishStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  const force = flags.has("force");
  return withPlan(invocation, "unpinned", async (run) => {
    const { registry, plan, config, progress } = run;
    const { window } = leaseDefaults(config, false, registry.kind);
    const look = async (): Promise<Finish> => {
      const findings = force ? await ifReadable(run) : await run.again().catch(unreadable);
      const finish = await prepareFinish({ ...run, findings }, window, force);
      if (!force) checkMoved(finish.status);
      return finish;
    };
    let finish = await look();
    const { readyAt, status } = finish;
    const wait = finish.pins.length === 0 ? 0 : readyAt - status.clock;
    const stopped = onInterrupt();
    if (wait > 0) {
      const why = "one window and maxClockSkew after the latest end of an old program";
      if (!json) await output.line(`The pins are removed at ${timeText(readyAt)}: ${why}.`);
      for (let now = status.clock; now < readyAt; { clock: now } = await registry.ping()) {
        progress.show("waiting,", `${Math.ceil((readyAt - now) / 1000)} s left`, 1 - (readyAt - now) / wait);
        await systemClock.sleep(Math.min(500, readyAt - now), { signal: stopped });
        if (stopped.aborted) return stopped.reason as number;
      }
      // Meanwhile, a program may have started the old way.
      finish = await look();
    }
    const { pins, staying } = finish;
    const unpinned = await unpinAll(registry, plan.namespace, pins, run.onProgress);
    progress.end();
    const left = finish.status.old + finish.status.conflict;
    if (json) return output.json({ unpinned, staying, left });
    const stay = staying === 0 ? "" : ` ${counted(staying, "stays", "stay")} pinned forever.`;
    await output.line(
      `Finished: removed ${counted(unpinned, "pin")}.${stay} From now on, start no program of the old scheme: its worker IDs are leased.`,
    );
  });
}

/** @throws SnowleaseError WORKER_ID_HELD if hosts have not moved, share a worker ID with a lease, or may have gone back. */
function checkMoved({ hosts }: MigrationStatus): void {
  const left = hosts.filter(({ state }) => state === "old" || state === "conflict");
  const stopped = hosts.filter(({ state }) => state === "stopped");
  if (left.length + stopped.length === 0) return;
  const rival = left.find(({ state }) => state === "conflict");
  const users = rival && `${hostText(rival)} and ${(rival.rivals ?? []).join(", ")}`;
  const what = [
    ...(left.length > 0 ? [`${left.length} of ${hosts.length} hosts have not moved (${someOf(left)})`] : []),
    ...(rival === undefined ? [] : [`worker ${rival.workerId} is used by ${users}`]),
    ...(stopped.length > 0
      ? [
          `${stopped.length} of ${hosts.length} hosts have moved and are not running now (${someOf(stopped)}): they may have gone back to the old scheme`,
        ]
      : []),
  ];
  const start = stopped.length > 0 ? "start their programs with this registry" : "move them";
  throw new SnowleaseError(
    "WORKER_ID_HELD",
    `${what.join("; ")}; ${start}, or, where none of them makes IDs the old way any more, remove their pins nevertheless with \`--force\`.`,
  );
}

/** The first few hosts, for people. */
function someOf(hosts: MigrationStatus["hosts"]): string {
  return `${hosts.slice(0, 5).map(hostText).join(", ")}${hosts.length > 5 ? ", …" : ""}`;
}

/** An operator must confirm a finish without a look at the source. */
function unreadable(error: unknown): never {
  if (!isSnowleaseError(error)) throw error;
  throw new SnowleaseError(
    error.code,
    `It is unknown whether programs of the old scheme have started: ${error.message.replace(/\.$/, "")}; or, if none can start any more, finish with \`--force\`.`,
    error.details,
    { cause: error },
  );
}
