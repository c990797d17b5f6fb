import { html } from "hono/html";
import { timeText } from "../../id/errors.ts";
import { grouped } from "../../id/notation.ts";
import type { Minute } from "../monitoring/last-hour.ts";
import type { Html } from "./text.ts";

/* The last hour, as this daemon saw it, one column a minute. SVG attributes draw it, because the page's policy allows no inline styles. */

const height = 24;

/** The charts of the last hour. `minutes`: the present one at the end. `clock`: Unix ms. */
export function chartsPart(minutes: readonly (Minute | undefined)[], clock: number): Html {
  const begin = clock - (minutes.length - 1) * 60_000;
  const time = (ms: number): string => `${timeText(ms).slice(11, 16)}Z`;
  const each = (value: (minute: Minute) => number | undefined): readonly (number | undefined)[] =>
    minutes.map((minute) => minute && value(minute));
  const refused = (minute: Minute): number => sum([...minute.refused.values()]);
  return html`<section aria-labelledby="hour-title" id="hour">
    <details open>
      <summary>
        <h2 id="hour-title">
          Last hour
          <span class="sub">${time(begin)} to ${time(clock)}<span class="wide">, as this daemon saw it</span></span>
        </h2>
      </summary>
      ${lineChart(
        "Pool",
        "live",
        each(({ taken }) => taken && 100 * taken),
        { most: 100, text: takenText },
      )}
      ${barChart(
        "Claims",
        "live",
        each(({ claims }) => claims),
      )}
      ${barChart(
        "Renewals",
        "live",
        each(({ renewals }) => renewals),
      )}
      ${barChart("Refused claims", "fail", each(refused), reasonsOf(minutes))}
      ${lineChart(
        "Clock",
        "resting",
        each(({ offset }) => offset && Math.abs(offset)),
        { text: clockText },
      )}
    </details>
  </section>`;
}

function takenText(now: number, most: number): string {
  return `${percent(now)} taken, at most ${percent(most)}`;
}

function clockText(now: number, most: number): string {
  return `${grouped(Math.round(now))} ms off, at most ${grouped(Math.round(most))} ms`;
}

function percent(value: number): string {
  return `${value.toFixed(value > 0 && value < 10 ? 1 : 0)} %`;
}

/** Why claims were refused, the most frequent reason first. */
function reasonsOf(minutes: readonly (Minute | undefined)[]): string {
  const reasons = new Map<string, number>();
  for (const minute of minutes) {
    for (const [code, count] of minute?.refused ?? []) reasons.set(code, (reasons.get(code) ?? 0) + count);
  }
  const sorted = [...reasons].toSorted(([, one], [, other]) => other - one);
  return sorted.map(([code, count]) => `${grouped(count)} ${code}`).join(", ");
}

/** A chart of counts. `detail`: the parts of the sum. */
function barChart(name: string, look: string, values: readonly (number | undefined)[], detail = ""): Html {
  const numbers = values.map((value) => value ?? 0);
  const most = Math.max(...numbers);
  const bars = numbers.flatMap((value, i) => {
    const length = most === 0 ? 0 : Math.max(1, Math.round((value / most) * height));
    return value === 0 ? [] : [`M${i} ${height}v-${length}h.8v${length}z`];
  });
  const all = sum(numbers);
  const text = all === 0 ? "none" : `${grouped(all)}, at most ${grouped(most)} a minute`;
  return chart(name, look, bars.join(""), detail === "" ? text : `${text}: ${detail}`);
}

/** A chart of a measured value from 0 up. Each column is as high as its value. */
function lineChart(
  name: string,
  look: string,
  values: readonly (number | undefined)[],
  { most, text }: { readonly most?: number; readonly text: (now: number, most: number) => string },
): Html {
  const numbers = values.filter((value) => value !== undefined);
  const highest = Math.max(0, ...numbers);
  const scale = most ?? Math.max(1, highest);
  const columns = values.flatMap((value, i) => {
    if (value === undefined) return [];
    const length = Math.max(0.5, (value / scale) * height).toFixed(1);
    return [`M${i} ${height}v-${length}h1v${length}z`];
  });
  const last = numbers.at(-1);
  return chart(name, look, columns.join(""), last === undefined ? "not seen yet" : text(last, highest));
}

function chart(name: string, look: string, path: string, text: string): Html {
  return html`<figure>
    <figcaption>${name} <span class="sub">${text}</span></figcaption>
    <svg class="chart ${look}" viewBox="0 0 60 ${height}" preserveAspectRatio="none" aria-hidden="true">
      <path d="${path}"></path>
    </svg>
  </figure>`;
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
