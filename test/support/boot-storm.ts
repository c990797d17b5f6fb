import { expect, onTestFinished, test } from "vitest";
import { defaultLayout } from "../../src/id/layout.ts";
import type { WorkerRecord } from "../../src/rule/registry.ts";
import { HolderProcess, type HolderState } from "./holder.ts";
import { namespace, type Subject } from "./subject.ts";

const processes = 200;
/** Time for two cores with other work to load 200 programs, ms. */
const patience = 300_000;

/**
 * A fleet that boots at once, the same for every registry: 200 processes, started in one burst, which claim at the same moment and
 * then make IDs during the same ticks. The pool has 200 worker IDs, so that each process has to get a different one.
 * @param driver the package that the registry needs: it is loaded first, because loading it would spread the claims.
 */
export function bootStorm(name: string, driver: string, start: () => Promise<Subject>): void {
  const title = `${processes} processes that boot together on ${name}: a worker ID each, no ID twice, none left live after them`;
  test(title, { timeout: patience }, async () => {
    const { url, registry, stop } = await start();
    onTestFinished(stop);
    // A process behind a hundred others on its core waits longer than the usual timeout of a registry.
    const options = { registry: url, namespace, pool: `0-${processes - 1}`, operationTimeout: "60s" };
    const environment = { NODE_OPTIONS: `--import ${driver}` };
    const holders = Array.from({ length: processes }, () => new HolderProcess(options, { environment }));
    onTestFinished(async () => {
      await Promise.all(holders.map((holder) => holder.kill()));
    });
    const notIn = async (state: string): Promise<readonly WorkerRecord[]> => {
      const records = await registry.workers(namespace);
      expect(records).toHaveLength(processes);
      return records.filter((record) => record.state !== state);
    };
    const all = (command: string): Promise<HolderState[]> => Promise.all(holders.map((holder) => holder.ask(command)));
    await all("ready");

    const begun = await all("start");
    expect(begun.map(({ workerId }) => workerId).toSorted((a, b) => a - b)).toEqual([...holders.keys()]);
    // While the last ones boot, a renewal of the first ones may come late; no other process takes their worker IDs.
    await expect.poll(() => notIn("live"), { timeout: patience, interval: 500 }).toEqual([]);
    await all("run");
    await all("pause");
    const ended = await all("close");
    expect(ended.map(({ workerId, fence, state }) => ({ workerId, fence, state }))).toEqual(
      begun.map(({ workerId, fence }) => ({ workerId, fence, state: "closed" })),
    );
    expect(await notIn("free")).toEqual([]);

    const ids = holders.map((holder) => holder.ids());
    const everyId = ids.flat();
    expect(new Set(everyId).size).toBe(everyId.length);
    // They made IDs during the same ticks, so a shared worker ID would show.
    const ticks = ids.map((own) => new Set(own.map((id) => defaultLayout.decompose(id).timestamp)));
    expect(ticks.every(({ size }) => size > 0)).toBe(true);
    expect(new Set(ticks.flatMap((own) => [...own])).size).toBeLessThan(ticks.reduce((sum, { size }) => sum + size, 0));
  });
}
