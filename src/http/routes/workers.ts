import { SnowleaseError } from "../../id/errors.ts";
import { pinEach, unpinEach } from "../../registries/pin-batches.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { type HistoryJson, historyJson, pinOf, type WorkerJson, workerJson } from "../../api/codec.ts";
import * as workers from "../../api/workers.ts";
import type { AppContext } from "./context.ts";
import { checkWorkerId } from "./namespaces.ts";
import { type Route, route } from "./route.ts";

const defaultLimit = 1000;
/** Highest limit of a page. */
const mostRows = 10_000;
/** Largest page of rows as JSON, bytes: recents are up to 88 KiB each. */
const pageBudget = 180_000;
/** Rows read at once. Rows that do not fit the page are read in vain. */
const step = 250;

export function workerRoutes({ registry, log }: AppContext): readonly Route[] {
  return [
    route(workers.list, async ({ namespace, query }) => {
      const { state } = query;
      const limit = Math.min(query.limit ?? defaultLimit, defaultLimit);
      const page = new RowPage<WorkerJson>();
      let more = true;
      for (let { after } = query; more && !page.isFull && page.rows.length < limit;) {
        const asked = Math.min(step, limit - page.rows.length);
        const found = await registry.workers(namespace, { state, after, limit: asked });
        more = found.length === asked;
        for (const record of found) page.add(workerJson(record));
        after = found.at(-1)?.workerId;
      }
      // A misspelt name must not look like an unused pool.
      if (page.rows.length === 0) await presentNamespace(registry, namespace);
      return { workers: page.rows, ...((more || page.isFull) && { next: page.rows.at(-1)?.workerId }) };
    }),

    route(workers.read, async ({ namespace, workerId }) => {
      await checkWorkerId(registry, namespace, workerId);
      const record = await registry.worker(namespace, workerId);
      if (record !== undefined) return workerJson(record);
      await presentNamespace(registry, namespace);
      throw new SnowleaseError("NOT_FOUND", `Worker ${workerId} of namespace \`${namespace}\` was never used.`);
    }),

    route(
      workers.history,
      async ({ namespace, workerId, query: { before, limit: asked = defaultLimit, ...range } }) => {
        await checkWorkerId(registry, namespace, workerId);
        const limit = Math.min(asked, defaultLimit);
        const wanted = { ...range, limit: before === undefined ? limit : mostRows };
        const rows = await registry.history(namespace, workerId, wanted);
        if (rows.length === 0) await presentNamespace(registry, namespace);
        const found = rows.filter(({ fence }) => fence < (before ?? Infinity)).slice(-limit);
        const page = new RowPage<HistoryJson>();
        for (const row of found.toReversed()) page.add(historyJson(row));
        const more = page.isFull || found.length === limit;
        return { rows: page.rows.toReversed(), ...(more && { next: page.rows.at(-1)?.fence }) };
      },
    ),

    route(
      workers.forceRelease,
      async ({ namespace, workerId, body: { force = false, fence, resetWindow = false } }) => {
        await checkWorkerId(registry, namespace, workerId);
        const answer = await registry.forceRelease({ namespace, workerId, force, fence, resetWindow });
        const worker = `Worker ${workerId} of namespace \`${namespace}\``;
        switch (answer.outcome) {
          case "absent":
            await presentNamespace(registry, namespace);
            throw new SnowleaseError("NOT_FOUND", `${worker} was never claimed.`, { answer });
          case "live": {
            const { host, ip, pid } = answer.holder;
            const what = `${worker} is held by ${host} (${ip}), pid ${pid}; stop that process, or force it.`;
            throw new SnowleaseError("WORKER_ID_HELD", what, { answer });
          }
          case "superseded": {
            const { fence: standing, holder } = answer;
            const what = `${worker} was claimed anew by ${holder.host} (${holder.ip}), pid ${holder.pid}, with the fence ${standing}, so nothing was changed; look whether that one is to be ended.`;
            throw new SnowleaseError("WORKER_ID_HELD", what, { answer });
          }
          case "released":
            log.warn(
              { event: "forced", namespace, workerId, until: answer.until, resetWindow },
              "ended by an operator",
            );
            return { until: answer.until };
        }
      },
    ),

    route(workers.pin, async ({ namespace, workerId, body }) => {
      const { reason, owner } = body;
      await checkWorkerId(registry, namespace, workerId);
      await registry.pin(namespace, workerId, reason, pinOf(body).owner);
      log.info({ event: "pinned", namespace, workerId, reason, owner }, "pinned");
    }),

    route(workers.unpin, async ({ namespace, workerId }) => {
      await checkWorkerId(registry, namespace, workerId);
      if (!(await registry.unpin(namespace, workerId))) {
        await presentNamespace(registry, namespace);
        throw new SnowleaseError("NOT_FOUND", `Worker ${workerId} of namespace \`${namespace}\` is not pinned.`);
      }
      log.info({ event: "unpinned", namespace, workerId }, "unpinned");
    }),

    route(workers.pinAll, async ({ namespace, body: { pins } }) => {
      await pinEach(
        registry,
        namespace,
        pins.map((pin) => ({ workerId: pin.workerId, ...pinOf(pin) })),
      );
      for (const { workerId, reason, owner } of pins) {
        log.info({ event: "pinned", namespace, workerId, reason, owner }, "pinned");
      }
    }),

    route(workers.unpinAll, async ({ namespace, body: { workerIds } }) => {
      await presentNamespace(registry, namespace);
      const unpinned = await unpinEach(registry, namespace, workerIds);
      for (const workerId of unpinned) log.info({ event: "unpinned", namespace, workerId }, "unpinned");
      return { unpinned };
    }),
  ];
}

/** The rows of one answer. It has as many rows as fit, and at least one. */
class RowPage<Row> {
  readonly rows: Row[] = [];
  /** Whether a row was left out. */
  isFull = false;
  #size = 0;

  add(row: Row): void {
    if (this.isFull) return;
    this.#size += Buffer.byteLength(JSON.stringify(row)) + 1;
    this.isFull = this.#size > pageBudget && this.rows.length > 0;
    if (!this.isFull) this.rows.push(row);
  }
}
