import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { leaseDefaults, type Config } from "../config.ts";
import { isSnowleaseError, shown, SnowleaseError } from "../core/errors.ts";
import { Layout } from "../core/layout.ts";
import type { Registry } from "../core/registry.ts";
import { checkLayout, timeText } from "../core/window.ts";
import { addressWorkerId } from "../assigners/ip.ts";
import { readHosts } from "../ops/migrate/addresses.ts";
import { applyPlan, type MigrationRequest, revertPlan, unpinAll } from "../ops/migrate/apply.ts";
import { hostText, makePlan, type Outlook, type Plan, planText, readPlan } from "../ops/migrate/plan.ts";
import { type Findings, type SourceKind, sourceKinds } from "../ops/migrate/source.ts";
import { readSource } from "../ops/migrate/sources.ts";
import { migrationStatus, type MigrationStatus, prepareFinish } from "../ops/migrate/status.ts";
import type { Command, Invocation } from "./command.ts";
import { printable, table } from "./output.ts";
import { Progress } from "./progress.ts";
import { addressOf, registryConfig, registrySettings, withRegistry } from "./settings.ts";
import { aborted, onInterrupt, signalExitCode } from "./signals.ts";
import { wordOf } from "./values.ts";

const defaultFile = "snowlease-migration.json";
/** Between two looks at how far a fleet is, ms. */
const interval = 2000;
/** Hosts, collisions and remarks that are printed. */
const mostShown = 50;

const steps = { plan: planStep, apply: applyStep, status: statusStep, finish: finishStep } as const;
type Step = keyof typeof steps;

/** The flags that only some steps have. */
const stepsOf: Readonly<Record<string, readonly Step[]>> = {
  from: ["plan"],
  hosts: ["plan"],
  out: ["plan"],
  renumber: ["apply"],
  revert: ["apply"],
  watch: ["status"],
  force: ["apply", "finish"],
};

export const migrate: Command = {
  name: "migrate",
  summary:
    "Move a fleet from worker IDs of another scheme (its IP addresses, westid, Leaf, …) to leased ones, host by host.",
  details: [
    "plan reads where the worker IDs come from today, lists those that two hosts share, and writes a plan file. It changes nothing. " +
      `apply PLAN pins those worker IDs: each for the host that uses it, a shared one for nobody. PLAN is ${defaultFile} where it is left out.`,
    "Then stop each host's old program and start it with this registry, those that collide first: it goes on with its own number (a " +
      "host is known by its address, see --ip), in a window that opens maxClockSkew later. status shows how far that is; finish takes the pins " +
      "back when all have moved. apply --revert takes them back at any time; while worker IDs are leased it wants --force. The source is only read.",
    "What is promised: a number of a host that has yet to move is leased to nobody else; and a host that takes its own over uses no time up to that " +
      "claim + maxClockSkew (at each start until finish). A program of the old scheme that goes on beyond that is seen by nobody.",
  ],
  examples: [
    "snowlease migrate plan --from ip --hosts hosts.txt --registry redis://localhost:6379",
    "snowlease migrate plan --from leaf zookeeper://localhost:2181?name=orders --out leaf.json",
    "snowlease migrate apply --registry redis://localhost:6379",
    "snowlease migrate status --watch --registry redis://localhost:6379",
    "snowlease migrate finish --registry redis://localhost:6379",
  ],
  settings: [...registrySettings, "layout", "window"],
  flags: [
    { name: "from", value: "SOURCE", description: `plan: ${sourceKinds.join(", ")}; all but ip with a URL behind it.` },
    {
      name: "hosts",
      value: "FILE",
      description: "plan --from ip: a line a host: an address, a range (10.0.0.0/24), or a name and an address.",
    },
    { name: "out", value: "FILE", description: `plan: the plan file; default ${defaultFile}.` },
    { name: "renumber", description: "apply: pin for nobody, so that each host gets another number." },
    { name: "revert", description: "apply: take the pins back." },
    { name: "watch", description: "status: go on until all have moved." },
    {
      name: "force",
      description: "finish: also with hosts that have not moved. apply --revert: also while worker IDs are leased.",
    },
  ],
  operands: { name: "plan [URL] | apply|status|finish [PLAN]", least: 1, most: 2 },

  async run(invocation) {
    const { operands, flags } = invocation;
    const [word = ""] = operands;
    if (!Object.hasOwn(steps, word)) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected plan, apply, status or finish, got ${shown(word)}; name one.`,
      );
    }
    const step = word as Step;
    const misplaced = Object.keys(stepsOf).find((name) => flags.has(name) && stepsOf[name]?.includes(step) !== true);
    if (misplaced !== undefined) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected \`migrate ${step}\` without \`--${misplaced}\`; leave it out.`,
      );
    }
    return steps[step](invocation);
  },
};

async function planStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  const from = wordOf(invocation, "from", sourceKinds);
  if (from === undefined)
    throw new SnowleaseError("CONFIG_INVALID", `Expected \`--from\` one of ${sourceKinds.join(", ")}.`);
  const file = String(flags.get("out") ?? defaultFile);
  const config = await registryConfig(invocation);
  const { namespace } = config;
  const made = async (registry?: Registry): Promise<ReturnType<typeof makePlan>> => {
    const layout = registry === undefined ? config.layout : await layoutIn(registry, config);
    const { findings, source } = await read(invocation, from, layout, config);
    for (const remark of findings.remarks.slice(0, mostShown))
      process.stderr.write(`snowlease: ${printable(remark)}\n`);
    const now = registry === undefined ? Date.now() : (await registry.ping()).clock;
    return makePlan(findings, { namespace, layout, from, source, now, registry });
  };
  const { plan, outlook } =
    config.registryFrom === "named" && isThere(config) ? await withRegistry(config, made) : await made();
  write(file, plan);
  if (json) return output.json({ file, ...outlook, hosts: plan.hosts });
  for (const { workerId, hosts } of outlook.collisions.slice(0, mostShown)) {
    await output.add(`${printable(`Worker ${workerId} is used by ${hosts.join(", ")}: move one of them first.`)}\n`);
  }
  await output.line(outlookText(outlook, plan, file));
}

/** What a source holds, and where it was read. */
async function read(
  { flags, operands }: Invocation,
  from: SourceKind,
  layout: Layout,
  { operationTimeout }: Config,
): Promise<{ readonly findings: Findings; readonly source: string }> {
  const [, url] = operands;
  const hosts = flags.get("hosts");
  if (from !== "ip") {
    if (url === undefined || hosts !== undefined) {
      throw new SnowleaseError(
        "CONFIG_INVALID",
        `Expected \`--from ${from} URL\`, and no \`--hosts\`; name its server.`,
      );
    }
    return readSource(from, url, { layout, operationTimeout });
  }
  if (typeof hosts !== "string" || url !== undefined) {
    throw new SnowleaseError("CONFIG_INVALID", "Expected `--from ip` with `--hosts FILE`, and no URL; name the file.");
  }
  const makers = readHosts(textOf(hosts), hosts).map((host) => ({
    ...host,
    workerId: addressWorkerId(host.address, layout),
  }));
  return { findings: { makers, retired: [], takesOver: true, remarks: [] }, source: hosts };
}

/** An embedded registry that is not there yet has nothing to be looked at. */
function isThere(config: Config): boolean {
  const address = addressOf(config);
  if (address.kind !== "sqlite") return true;
  try {
    return readFileSync(address.path).length > 0;
  } catch {
    return false;
  }
}

/** The namespace's layout, or the one for a namespace that is not there yet. */
async function layoutIn(registry: Registry, { namespace, layout, sources }: Config): Promise<Layout> {
  const info = await registry.describe(namespace);
  if (info === undefined) return layout;
  if (sources.layout !== undefined) checkLayout(namespace, layout.fingerprint, info);
  return Layout.parse(info.layout);
}

/** Writes a plan, in one step; over another plan, and over nothing else. */
function write(file: string, plan: Plan): void {
  try {
    try {
      readPlan(readFileSync(file, "utf8"), file);
    } catch (error) {
      if (isSnowleaseError(error)) throw error;
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    const beside = `${file}.${process.pid}.tmp`;
    writeFileSync(beside, planText(plan), { flag: "wx" });
    renameSync(beside, file);
  } catch (error) {
    const why = isSnowleaseError(error) ? "it is no plan" : (error as Error).message;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `The plan cannot be written to ${file} (${why}); name another with \`--out\`.`,
    );
  }
}

function outlookText(outlook: Outlook, { hosts }: Plan, file: string): string {
  const { collisions, size, kept, renumbered, retired, taken, left } = outlook;
  return [
    `Hosts: ${hosts.length}. Go on with their worker ID: ${kept}. Get another one: ${renumbered}. Shared worker IDs: ${collisions.length}.`,
    `Of ${size} worker IDs: ${kept} pinned for their hosts, ${retired} for nobody, ${taken === undefined ? "" : `${taken} taken otherwise, `}${left} left to claim.`,
    ...(left < renumbered
      ? [`That is too few: ${renumbered} hosts need another one. Use a larger layout or another namespace.`]
      : []),
    `Written to ${file}; nothing was changed. Go on with \`snowlease migrate apply ${file}\`.`,
  ].join("\n");
}

/** The plan that is named, its registry, and a progress bar. */
async function withPlan<Result>(
  invocation: Invocation,
  phase: string,
  use: (request: MigrationRequest, config: Config, progress: Progress) => Promise<Result>,
): Promise<Result> {
  const [, file = defaultFile] = invocation.operands;
  const plan = readPlan(textOf(file), file);
  const config = await registryConfig(invocation);
  const named = config.sources.namespace === undefined ? undefined : config.namespace;
  const progress = new Progress();
  const onProgress = (done: number, of: number): void => progress.show(phase, `${done} of ${of}`, done / of);
  try {
    return await withRegistry(config, (registry) => use({ registry, plan, named, onProgress }, config, progress));
  } finally {
    progress.end();
  }
}

async function applyStep(invocation: Invocation): Promise<void> {
  const { flags, output, json } = invocation;
  if (flags.has("revert")) {
    if (flags.has("renumber"))
      throw new SnowleaseError("CONFIG_INVALID", "Expected `--revert` without `--renumber`; leave one out.");
    const reverted = await withPlan(invocation, "unpinned", (request) => revertPlan(request, flags.has("force")));
    if (json) return output.json(reverted);
    await output.line(`Taken back: ${reverted.unpinned} pins.`);
    if (reverted.live === 0) return;
    return output.line(
      `${reverted.live} worker IDs are leased: a claim from now on may get one that a host of the old scheme uses. Move those hosts back first, or apply again.`,
    );
  }
  if (flags.has("force"))
    throw new SnowleaseError("CONFIG_INVALID", "Expected `--force` of `migrate apply` with `--revert`; leave it out.");
  const applied = await withPlan(invocation, "pinned", (request) => applyPlan(request, flags.has("renumber")));
  if (json) return output.json(applied);
  const { pinned, unchanged, others, left } = applied;
  for (const { workerId, reason } of others.slice(0, mostShown)) {
    await output.add(
      `${printable(`Worker ${workerId} is pinned already (${reason}): left as it is, nobody takes it over.`)}\n`,
    );
  }
  if (left.length > 0)
    await output.add(
      `Pins of an earlier plan: ${left.length}; apply that plan with --revert first if they are wrong.\n`,
    );
  await output.line(
    `Pinned: ${pinned}. Pinned before: ${unchanged}. Now move the hosts, one by one; \`snowlease migrate status\` shows how far that is.`,
  );
}

async function statusStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  const print = (status: MigrationStatus): Promise<void> =>
    json ? output.json(status) : output.line(statusText(status));
  return withPlan(invocation, "moved", async (request, _config, progress) => {
    if (!flags.has("watch")) return print(await migrationStatus(request));
    const stopped = onInterrupt();
    let before = "";
    for (;;) {
      const status = await migrationStatus(request);
      const { hosts, moved, old, conflict } = status;
      const line = `${moved} of ${hosts.length} hosts moved, ${old} on the old scheme, ${conflict} in conflict`;
      progress.show(line, "", moved / hosts.length);
      if (json && line !== before) await output.json(status);
      else if (!json && !process.stderr.isTTY && line !== before) await output.line(`${line}.`);
      before = line;
      if (moved === hosts.length || output.closed.aborted) break;
      await Promise.race([sleep(interval), aborted(stopped), aborted(output.closed)]);
      if (stopped.aborted) return signalExitCode(stopped.reason as NodeJS.Signals);
    }
    progress.end();
    if (!json) await output.line("All hosts have moved; `snowlease migrate finish` takes the pins back.");
  });
}

function statusText({ hosts, moved, old, conflict, unpinned }: MigrationStatus): string {
  const left = hosts.filter(({ state }) => state !== "moved");
  const rows = left
    .toSorted((a, b) => Number(b.state === "conflict") - Number(a.state === "conflict"))
    .map((host) => {
      const { name, address = "", workerId, state, rivals = [], renumbered } = host;
      const why =
        rivals.length > 0 ? `shared with ${rivals.join(", ")}` : renumbered === undefined ? "" : "gets another one";
      return [workerId, name, address, state, why];
    });
  return [
    ...(rows.length === 0 ? [] : [table(["WORKER ID", "HOST", "IP", "STATE", ""], rows.slice(0, mostShown))]),
    ...(rows.length > mostShown ? [`… and ${rows.length - mostShown} more; --json lists all.`] : []),
    `Moved: ${moved} of ${hosts.length}. On the old scheme: ${old}. In conflict: ${conflict}.`,
    ...(unpinned.length === 0
      ? []
      : [
          `Not pinned any more: ${unpinned.length} worker IDs of the plan (${unpinned.slice(0, 8).join(", ")}${unpinned.length > 8 ? ", …" : ""}); run \`snowlease migrate apply\` again.`,
        ]),
  ].join("\n");
}

async function finishStep(invocation: Invocation): Promise<number | void> {
  const { flags, output, json } = invocation;
  const force = flags.has("force");
  return withPlan(invocation, "unpinned", async (request, config, progress) => {
    const { registry, plan, onProgress } = request;
    const { window } = leaseDefaults(config, false, registry.kind);
    const { status, pins, staying, readyAt } = await prepareFinish(request, window, force);
    const left = status.hosts.filter(({ state }) => state !== "moved");
    if (left.length > 0 && !force) {
      const some = left.slice(0, 5).map(hostText).join(", ");
      throw new SnowleaseError(
        "WORKER_ID_HELD",
        printable(
          `${left.length} of ${status.hosts.length} hosts have not moved (${some}${left.length > 5 ? ", …" : ""}): move them, or unpin their worker IDs all the same with \`--force\`.`,
        ),
      );
    }
    const wait = pins.length === 0 ? 0 : readyAt - status.clock;
    if (wait > 0 && !json)
      await output.line(
        `The pins go at ${timeText(readyAt)}, one window and maxClockSkew after the last host has moved.`,
      );
    const stopped = onInterrupt();
    for (let now = status.clock; now < readyAt && wait > 0; { clock: now } = await registry.ping()) {
      progress.show("waiting,", `${Math.ceil((readyAt - now) / 1000)} s left`, 1 - (readyAt - now) / wait);
      await Promise.race([sleep(Math.min(500, readyAt - now)), aborted(stopped)]);
      if (stopped.aborted) return signalExitCode(stopped.reason as NodeJS.Signals);
    }
    const unpinned = await unpinAll(registry, plan.namespace, pins, onProgress);
    progress.end();
    if (json) return output.json({ unpinned, staying, left: left.length });
    const stay = staying === 0 ? "" : ` ${staying} stay pinned for good.`;
    await output.line(`Finished: ${unpinned} pins are taken back.${stay}`);
  });
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const what = (error as NodeJS.ErrnoException).code === "ENOENT" ? "there is none" : (error as Error).message;
    throw new SnowleaseError(
      "CONFIG_INVALID",
      printable(`The file \`${file}\` cannot be read (${what}); name another.`),
    );
  }
}
