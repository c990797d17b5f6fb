import { openSync, writeSync } from "node:fs";
import { setImmediate, setTimeout } from "node:timers/promises";
import { textOf } from "./duplicates.ts";
import type { HolderCall, HolderStart, IdSource, LifeReport } from "./holder.ts";
import { shiftDate } from "./shifted-date.ts";

/*
 * The process of a holder. It writes each ID into a file before it makes the next ones, so that the test knows all of them however the
 * process ends.
 */

/** IDs that are made in one ms of a life: few, so that a life touches many ticks. */
const perMs = 4;
/** Pause after a refusal, ms. */
const pause = 5;
/** `make` ends after so long without an ID, ms. */
const patience = 10_000;

const date = shiftDate();
const [, , started = "{}"] = process.argv;
const { module, registry, options, file } = JSON.parse(started) as HolderStart;
const ids = openSync(file, "a");
let source: IdSource | undefined;

async function load(): Promise<(options: object) => IdSource | Promise<IdSource>> {
  if (module === undefined) {
    const { snowlease } = await import("../snowlease.ts");
    return async (given) => {
      const made = await snowlease({ ...given, ...(registry !== undefined && { registry }) });
      return { next: () => made.nextAsync(), close: () => made.close() };
    };
  }
  const { default: start } = (await import(module)) as { readonly default?: unknown };
  if (typeof start === "function") return start as (options: object) => IdSource;
  throw new TypeError(`Expected the default export of ${module} to be a function that returns { next, close }.`);
}

/** Makes IDs until there are `count`, or for `ms`. A refusal is counted, and does not end it. */
async function live({ count = Infinity, ms = Infinity }: { readonly count?: number; readonly ms?: number }) {
  if (source === undefined) throw new Error("This holder was not started.");
  const began = Date.now();
  const end = performance.now() + ms;
  const refusals: Record<string, number> = {};
  let made = 0;
  let reason: string | undefined;
  let lately = performance.now();
  while (made < count && performance.now() < Math.min(end, lately + patience)) {
    const tick = Date.now();
    const texts: string[] = [];
    try {
      while (texts.length < Math.min(perMs, count - made)) texts.push(textOf(await source.next()));
    } catch (error) {
      const { code, name, message } = error as NodeJS.ErrnoException;
      const word = code ?? name;
      refusals[word] = (refusals[word] ?? 0) + 1;
      reason ??= message;
    }
    if (texts.length === 0) {
      await setTimeout(pause);
      continue;
    }
    writeSync(ids, `${texts.join("\n")}\n`);
    made += texts.length;
    lately = performance.now();
    // The next ms: the program's timers and answers have their turn meanwhile.
    while (Date.now() === tick && made < count) await setImmediate();
  }
  return { began, made, refusals, reason } satisfies LifeReport;
}

const loaded = load();
// The answer to the first call tells a failure; until then it must not end the process.
loaded.catch(() => undefined);

async function obey(call: HolderCall): Promise<unknown> {
  switch (call.name) {
    case "load":
      await loaded;
      return undefined;
    case "start":
      if (call.clock !== undefined) date.set(call.clock);
      source = await (await loaded)(options);
      if (typeof source.next === "function") return undefined;
      throw new TypeError(`Expected ${module} to return an object with \`next\`.`);
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
      const { message, code } = error as NodeJS.ErrnoException;
      process.send?.({ id, error: { message, code } });
    },
  );
});
// The test's process has ended.
process.on("disconnect", () => process.exit());
