import { openSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate, setTimeout } from "node:timers/promises";
import { textOf } from "./duplicates.ts";
import type { HolderCall, HolderStart, IdSource, LifeReport } from "./holder.ts";
import { shiftDate } from "./shifted-date.ts";

/*
 * The process of a holder. It writes each ID into a file before it makes the next one, so that the test knows all IDs, however the
 * process ends.
 */

/** IDs that are made in one ms of a life. They are few, so that a life has many ticks. */
const perMs = 4;
/** Pause after a refusal, ms. */
const pause = 5;
/** `make` ends after this time without an ID, ms. */
const patience = 10_000;

type StartIds = (options: object) => IdSource | Promise<IdSource>;

const date = shiftDate();
let told: HolderStart | undefined;
let startIds: StartIds | undefined;
let source: IdSource | undefined;
let ids = -1;

async function load(start: HolderStart): Promise<void> {
  told = start;
  const { module, registry, file, clock } = start;
  ids = openSync(file, "a");
  if (clock !== undefined) date.set(clock);
  if (module !== undefined) {
    const { default: found } = (await import(module)) as { readonly default?: unknown };
    if (typeof found === "function") return void (startIds = found as StartIds);
    throw new TypeError(`Expected the default export of ${module} to be a function that returns { next, close }.`);
  }
  const { snowlease } = await import("../snowlease.ts");
  startIds = async (options) => {
    const made = await snowlease({ ...options, ...(registry !== undefined && { registry }) });
    return { next: () => made.nextAsync(), close: () => made.close() };
  };
}

/** Makes IDs until there are `count`, or for `ms`. It counts a refusal and goes on. */
async function live({ count = Infinity, ms = Infinity }: { readonly count?: number; readonly ms?: number }) {
  if (source === undefined) throw new Error("This holder was not started.");
  const began = Date.now();
  const end = performance.now() + ms;
  const refusals: Record<string, number> = {};
  let made = 0;
  let reason: string | undefined;
  let lately = performance.now();
  do {
    const tick = Date.now();
    const before = made;
    try {
      for (let i = 0; i < perMs && made < count; i++, made++) writeSync(ids, `${textOf(await source.next())}\n`);
    } catch (error) {
      const { code, name, message } = error as NodeJS.ErrnoException;
      const word = code ?? name;
      refusals[word] = (refusals[word] ?? 0) + 1;
      reason ??= message;
    }
    if (made === before) await setTimeout(pause);
    else {
      lately = performance.now();
      // Wait for the next ms. Meanwhile, the program's timers and answers can run.
      do await setImmediate();
      while (Date.now() === tick && made < count);
    }
  } while (made < count && performance.now() < (count === Infinity ? end : lately + patience));
  return { began, made, refusals, reason } satisfies LifeReport;
}

async function obey(call: HolderCall): Promise<unknown> {
  switch (call.name) {
    case "load":
      return load(call);
    case "start":
      if (told?.clock !== undefined) date.set(told.clock);
      source = await startIds?.(told?.options ?? {});
      if (typeof source?.next === "function") return undefined;
      throw new TypeError(`Expected ${told?.module} to return an object with \`next\`.`);
    case "live":
      return live(call);
    case "set-clock":
      date.set(call.clock);
      return undefined;
    case "close":
      await source?.close?.();
      return undefined;
  }
}

process.on("message", ({ id, call }: { readonly id: number; readonly call: HolderCall }) => {
  obey(call).then(
    (answer) => process.send?.({ id, answer }),
    (error: unknown) => {
      const { message, code, name } = error as NodeJS.ErrnoException;
      process.send?.({ id, error: { message, code, name } });
    },
  );
});
// These signals of a terminal are meant for the process that started this one.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => undefined);
// The test's process has ended, and left its folder.
process.on("disconnect", () => {
  if (told !== undefined) rmSync(dirname(told.file), { recursive: true, force: true });
  process.exit();
});
