import { expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import { HolderProcess, type HolderState } from "./holder.ts";
import { namespace, type Subject } from "./subject.ts";

const processes = 200;
/** How long two cores may take to load 200 programs while they also do other work, ms. */
const patience = 300_000;

/**
 * A fleet that boots at once, the same for every registry. 200 processes start in one burst, claim at the same moment, and then make IDs
 * during the same ticks. The pool has 200 worker IDs, so each process must get a different one.
 * @param driver the package that the registry needs. Each process loads it before its claim. Otherwise, loading would spread the claims.
 */
export function bootStorm(name: string, driver: string, start: () => Promise<Subject>): void {
  const title = `${processes} processes that boot together on ${name}: a worker ID each, no ID twice, none left live after them`;
  test(title, { timeout: patience }, async () => {
    const { url, registry, stop } = await start();
    onTestFinished(stop);
    // With a hundred others before it on its core, a process waits for longer than a registry may take.
    const options = { registry: url, namespace, pool: `0-${processes - 1}`, operationTimeout: "60s" };
    const environment = { NODE_OPTIONS: `--import ${driver}` };
    const holders = Array.from({ length: processes }, () => new HolderProcess(options, { environment }));
    onTestFinished(async () => {
      await Promise.all(holders.map((holder) => holder.kill()));
    });
    const all = (command: string): Promise<HolderState[]> => Promise.all(holders.map((holder) => holder.ask(command)));
    await all("ready");

    const begun = await all("start");
    expect(begun.map(({ workerId }) => workerId).toSorted((a, b) => a - b)).toEqual([...holders.keys()]);
    expect(await registry.workers(namespace, { state: "live" })).toHaveLength(processes);
    await all("run");
    await all("pause");
    const ended = await all("close");
    expect(ended.map(({ workerId, fence, state }) => ({ workerId, fence, state }))).toEqual(
      begun.map(({ workerId, fence }) => ({ workerId, fence, state: "closed" })),
    );
    expect(await registry.workers(namespace, { state: "free" })).toHaveLength(processes);

    const ids = holders.map((holder) => holder.ids());
    const everyId = ids.flat();
    expect(new Set(everyId).size).toBe(everyId.length);
    // If two of them had shared a worker ID, the IDs would show it, since both made IDs during the same ticks.
    const ticks = ids.map((own) => new Set(own.map((id) => defaultLayout.decompose(id).timestamp)));
    expect(ticks.every(({ size }) => size > 0)).toBe(true);
    expect(new Set(ticks.flatMap((own) => [...own])).size).toBeLessThan(ticks.reduce((sum, { size }) => sum + size, 0));
  });
}
