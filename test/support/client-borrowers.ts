import { expect, onTestFinished, test } from "vitest";
import { until } from "./cli.ts";
import { type HolderPrograms, makeOne, startMaker } from "./client-holders.ts";
import { timeOf, workerOf } from "./client-sandbox.ts";
import type { DaemonProcess } from "./daemon-process.ts";
import { expectAudited, type Maker } from "./examples.ts";
import { HolderProcess } from "./holder.ts";

/** Processes that may borrow one lease. */
const places = 24;

/** Tests what every client does with a share of a daemon's own lease, each with real daemons. Each test calls `programs`. */
export function testBorrowers(programs: () => HolderPrograms): void {
  const lending = ({ url }: DaemonProcess): string => `${url}?borrow=true`;
  const borrower = (name: string, daemon: DaemonProcess, command?: readonly string[]): Maker =>
    startMaker(programs(), name, lending(daemon), command);

  test("borrowers, their daemon and TypeScript make no ID twice on one worker ID, also where some die or stop and the daemon is killed", async () => {
    const { sandbox, crew, crewIds, terminated } = programs();
    const flags = ["--lend", "--window", "3s"];
    let daemon = await sandbox.startDaemon(0, ...flags);
    const made: string[] = [];
    const makeHere = async (): Promise<void> => void made.push(...(await idsOf(daemon, 1000)));

    const library = new HolderProcess({ registry: lending(daemon), namespace: "default" });
    onTestFinished(() => library.kill());
    await library.ask("start");
    await library.ask("run");
    const makers = ["killed", "stopped", "other"].map((name) => borrower(name, daemon));
    const [killed, stopped, other] = makers as [Maker, Maker, Maker];
    const crews = [1, 2].map((n) => borrower(`crew-${n}`, daemon, crew));
    await Promise.all([...makers.map((one) => one.made(200)), makeHere()]);
    expect(new Set([...makers.flatMap((one) => one.ids()), ...made].map(workerOf)).size).toBe(1);
    expect(await sandbox.workers()).toEqual([]);

    await killed.process.kill();
    stopped.process.signal("SIGSTOP");
    await daemon.end("SIGKILL");
    daemon = await sandbox.startDaemon(daemon.port, ...flags);
    await makeHere();
    await until(() => other.process.stderr.includes("takes the place of"));
    await other.made(200);
    // The window of the first daemon has passed.
    const newest = Math.max(...stopped.ids().map(timeOf));
    await until(() => Date.now() > newest + 3000);
    stopped.process.signal("SIGCONT");
    await until(() => stopped.process.stderr.includes("takes the place of"));
    await stopped.made(200);
    await makeHere();
    for (const { process } of crews) expect(await process.ended).toMatchObject({ code: 0 });
    for (const { process } of [stopped, other]) {
      process.signal("SIGTERM");
      expect((await process.ended).code).toBe(terminated);
    }
    await library.ask("close");

    expect(crews.flatMap((one) => one.ids())).toHaveLength(2 * crewIds);
    const all = [...makers, ...crews].flatMap((one) => one.ids());
    await expectAudited(sandbox, daemon.url, [...all, ...made, ...library.ids().map(String)]);
  });

  test("a borrower goes on for what it has of the next seconds while its daemon does not answer, and tells then why there is no ID", async () => {
    const { sandbox } = programs();
    const daemon = await sandbox.startDaemon(0, "--lend");
    const holder = borrower("ids", daemon);
    await holder.made(100);
    daemon.signal("SIGSTOP");
    const stopped = Date.now();
    const gaveUp = { code: 1, stderr: expect.stringMatching(/^SEQUENCE_EXHAUSTED: [^\n]*\n$/) as string };
    expect(await holder.process.ended).toMatchObject(gaveUp);
    const newest = Math.max(...holder.ids().map(timeOf));
    expect(newest).toBeGreaterThan(stopped);
    daemon.signal("SIGCONT");
    const next = borrower("next", daemon, programs().ids(20_000));
    expect(await next.process.ended).toMatchObject({ code: 0, stderr: "" });
    await expectAudited(sandbox, daemon.url, [...holder.ids(), ...next.ids(), ...(await idsOf(daemon, 1000))]);
  });

  test("waits for the place of a borrower that has ended", async () => {
    const { sandbox } = programs();
    const daemon = await sandbox.startDaemon(0, "--lend");
    await takePlaces(daemon);
    expect(await makeOne(programs(), lending(daemon))).toMatchObject({ code: 0, stderr: "" });
  });

  test("one that asks to borrow of a daemon without `--lend` is refused, and holds nothing", async () => {
    const { sandbox } = programs();
    const daemon = await sandbox.startDaemon();
    expect(await makeOne(programs(), daemon.url)).toMatchObject({ code: 0, stderr: "" });
    const { code, stderr } = await makeOne(programs(), lending(daemon));
    expect(code).toBe(1);
    expect(stderr).toMatch(/^CONFIG_INVALID: [^\n]*`--lend`[^\n]*\n$/);
    expect((await sandbox.workers()).map(({ workerId, clean }) => [workerId, clean])).toEqual([[0, true]]);
  });
}

async function ask(daemon: DaemonProcess, path: string, body: object): Promise<unknown> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${daemon.url}/v1/default/${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  expect(answer.ok).toBe(true);
  return answer.json();
}

/** IDs that the daemon itself makes. */
async function idsOf(daemon: DaemonProcess, count: number): Promise<readonly string[]> {
  return ((await ask(daemon, "ids", { count })) as { readonly ids: readonly string[] }).ids;
}

/** Takes every place of a lender. They stay taken for as long as a place does after its borrower has ended. */
async function takePlaces(daemon: DaemonProcess): Promise<void> {
  for (let place = 0; place < places; place++) {
    const claim = { shared: true, now: Date.now() };
    const lease = (await ask(daemon, "leases", claim)) as Readonly<Record<"workerId" | "fence" | "token", unknown>>;
    const { workerId, fence, token } = lease;
    const blocks = { token, fence, first: 0, spans: 1, blocks: 1, held: 0 };
    await ask(daemon, `leases/${String(workerId)}/blocks`, blocks);
  }
}
