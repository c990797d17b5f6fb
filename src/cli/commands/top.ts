import { systemClock } from "../../clock.ts";
import { noNamespace } from "../../rule/window.ts";
import { alarmsOf } from "../../ops/pool/alarms.ts";
import { changes } from "../../ops/pool/changes.ts";
import { type Look, type Picture, PoolWatch } from "../../ops/pool/pool-watch.ts";
import { workerJson } from "../../api/codec.ts";
import type { CliCommand } from "../command.ts";
import type { Output } from "../terminal/output.ts";
import { type KeyPress, openScreen } from "../terminal/screen.ts";
import { addressOf, registryConfig, registrySettings, withRegistry } from "../settings.ts";
import { beforeAbort, onInterrupt, signalExitCode } from "../processes/signals.ts";
import { drawTop, type SeenChange, type Surface } from "../terminal/top-view.ts";

/** How often the screen is drawn, and how often the registry is asked, ms. */
const second = 1000;
const interval = 2000;
const changesKept = 100;
/** Columns of a snapshot that goes to no terminal. */
const plainColumns = 120;

export const top: CliCommand = {
  name: "top",
  summary: "Watch a pool: how many worker IDs are taken, their holders, the windows that end next, and events.",
  details: [
    "q or Esc quits. The arrows, PgUp, PgDn, Home and End scroll. If stdout is not a terminal, or with `--json`, the command prints the present state and ends. NO_COLOR turns colours off. Events are the differences between two readings, 2 s apart.",
  ],
  examples: [
    "snowlease top",
    "snowlease top --registry http://127.0.0.1:7070 --namespace orders",
    "snowlease top --json",
  ],
  settings: registrySettings,

  async run(invocation) {
    const { output, json } = invocation;
    const config = await registryConfig(invocation);
    const { namespace } = config;
    const registry = addressOf(config).redacted;
    return withRegistry(config, async (opened) => {
      const watch = new PoolWatch(opened, namespace, systemClock);
      const live = process.stdout.isTTY && process.env["TERM"] !== "dumb" && !json;
      const { picture, problem } = live ? await watch.look() : await watch.lookThrough();
      if (picture === undefined) throw problem ?? noNamespace(namespace);
      if (live) return follow(watch, picture, registry, output);
      if (problem !== undefined) throw problem;
      if (json) return output.json(asJson(picture, registry));
      const scene = { picture, changes: [], registry, now: picture.clock, scroll: 0 };
      const { lines } = drawTop(scene, { columns: plainColumns, rows: Infinity, ...abilities(), colored: false });
      await output.line(lines.join("\n"));
    });
  },
};

/** Draws until a key or a signal ends it. Resolves to the exit code. */
async function follow(watch: PoolWatch, first: Picture, registry: string, output: Output): Promise<number> {
  const interrupted = onInterrupt();
  const ended = new AbortController();
  let look: Look & { readonly picture: Picture } = { picture: first, problem: undefined };
  let lookedAt = Date.now();
  let seen: readonly SeenChange[] = [];
  let scroll = 0;
  let mostScroll = 0;

  const redraw = (): void => {
    const { picture, problem } = look;
    // Read the size at each drawing: the terminal may have been resized.
    const surface: Surface = { ...screen.size(), ...abilities() };
    const now = picture.clock + Date.now() - lookedAt;
    const why = problem && `${problem.code}: ${problem.message}`;
    const drawn = drawTop({ picture, problem: why, changes: seen, registry, now, scroll }, surface);
    mostScroll = drawn.mostScroll;
    scroll = Math.min(scroll, mostScroll);
    screen.show(drawn.lines);
  };
  const press = (key: KeyPress): void => {
    if (key === "quit") return ended.abort(0);
    if (key === "interrupt") return ended.abort(signalExitCode("SIGINT"));
    const page = Math.max(1, Math.floor(screen.size().rows / 3));
    const goals = {
      up: scroll - 1,
      down: scroll + 1,
      "page-up": scroll - page,
      "page-down": scroll + page,
      first: 0,
      last: mostScroll,
    };
    scroll = Math.max(0, Math.min(mostScroll, goals[key]));
    redraw();
  };

  const screen = openScreen(press, redraw);
  redraw();
  const stop = AbortSignal.any([interrupted, ended.signal, output.closed]);
  const drawing = setInterval(redraw, second);
  try {
    while (!stop.aborted) {
      await systemClock.sleep(interval, { signal: stop });
      if (stop.aborted) break;
      const next = await beforeAbort(watch.look(), stop);
      if (next === undefined) break;
      const { picture = look.picture, problem } = next;
      if (picture !== look.picture) {
        const at = picture.clock;
        seen = [...seen, ...changes(look.picture, picture).map((change) => ({ ...change, at }))].slice(-changesKept);
        lookedAt = Date.now();
      }
      look = { picture, problem };
      redraw();
    }
  } finally {
    clearInterval(drawing);
    screen.close();
  }
  return typeof stop.reason === "number" ? stop.reason : 0;
}

/** What the terminal can show, according to the environment. */
function abilities(): Pick<Surface, "colored" | "unicode"> {
  const { NO_COLOR = "", LC_ALL, LC_CTYPE, LANG } = process.env;
  const locale = LC_ALL || LC_CTYPE || LANG || "";
  return { colored: NO_COLOR === "", unicode: /utf-?8/i.test(locale) };
}

function asJson(picture: Picture, registry: string): object {
  const { holders, forecast, layout, cells: _, cellSize: __, overdue, ...rest } = picture;
  const { wrap, endOfLife } = layout;
  return {
    registry,
    alarms: alarmsOf(picture),
    ...rest,
    layout: layout.fingerprint,
    endOfLife: wrap === undefined ? endOfLife : undefined,
    wrap,
    forecast,
    overdue: overdue.count,
    holders: holders.map(workerJson),
  };
}
