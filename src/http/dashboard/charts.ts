import { html } from "../../vendor/hono.ts";
import { grouped } from "../../id/notation.ts";
import type { TrendPoint } from "../monitoring/trends.ts";
import { tight } from "./room.ts";
import type { Html } from "./text.ts";

/** A chart of an hour: a value for each minute, undefined where there is none. */
interface Chart {
  readonly title: string;
  readonly values: readonly (number | undefined)[];
  readonly unit: string;
  /** `sum`: bars, of which the hour's sum is told. `level`: a line, of which the newest value is told. */
  readonly kind: "sum" | "level";
  readonly look: string;
}

const [width, height] = [300, 56];
/** The least value that fills a chart: of a smaller one, nothing is made to look like much. */
const leastScale = 4;

/** The last hour as charts. They need no script, and are drawn in the colours of the page. */
export function chartsPart(points: readonly (TrendPoint | undefined)[]): Html {
  const count = (name: "claims" | "renewals" | "refusals"): readonly (number | undefined)[] =>
    points.map((point) => point?.[name]);
  const charts: readonly Chart[] = [
    { title: "Worker IDs taken", values: points.map((point) => point?.taken), unit: "", kind: "level", look: "use" },
    { title: "Claims", values: count("claims"), unit: "", kind: "sum", look: "claims" },
    { title: "Renewals", values: count("renewals"), unit: "", kind: "sum", look: "renewals" },
    { title: "Refused claims", values: count("refusals"), unit: "", kind: "sum", look: "refusals" },
    {
      title: "Clock against the registry’s",
      values: points.map((point) => point?.skew),
      unit: " ms",
      kind: "level",
      look: "skew",
    },
  ];
  return html`<section aria-labelledby="charts-title" id="charts">
    <h2 id="charts-title">Last hour <span class="sub">as this daemon saw it, by minute</span></h2>
    <div>${charts.map((chart) => tight(chartOf(chart)))}</div>
  </section>`;
}

function chartOf({ title, values, unit, kind, look }: Chart): Html {
  const text = kind === "sum" ? sumText(values) : levelText(values, unit);
  const known = values.filter((value) => value !== undefined);
  const most = Math.max(leastScale, ...known.map((value) => Math.abs(value)));
  const isSigned = known.some((value) => value < 0);
  const base = isSigned ? height / 2 : height - 2;
  const scale = (base - 2) / most;
  const path = kind === "sum" ? barsOf(values, scale) : lineOf(values, base, scale);
  return html`<figure>
    <figcaption>${title} <b>${text}</b></figcaption>
    <svg
      viewBox="0 0 ${width} ${height}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title}, last hour: ${text}"
    >
      <path class="axis" d="M0 ${base}H${width}" />
      <path class="${look}" d="${path}" />
    </svg>
  </figure>`;
}

function sumText(values: readonly (number | undefined)[]): string {
  const sum = values.reduce<number>((sum, value = 0) => sum + value, 0);
  const most = Math.max(0, ...values.map((value = 0) => value));
  return sum === 0 ? "none" : `${grouped(sum)}, at most ${grouped(most)} a minute`;
}

function levelText(values: readonly (number | undefined)[], unit: string): string {
  const known = values.filter((value) => value !== undefined);
  const last = known.at(-1);
  if (last === undefined) return "not seen yet";
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const range = least === most ? "" : `, from ${grouped(least)} to ${grouped(most)}`;
  return `${grouped(last)}${unit} last${range}`;
}

/** The middle of a minute. */
function xOf(i: number, values: readonly unknown[]): number {
  return ((i + 0.5) * width) / values.length;
}

function barsOf(values: readonly (number | undefined)[], scale: number): string {
  return values
    .map((value = 0, i) => (value === 0 ? "" : `M${xOf(i, values)} ${height - 2}v${-round(value * scale)}`))
    .join("");
}

/** A step for each minute, interrupted where nothing is known. */
function lineOf(values: readonly (number | undefined)[], base: number, scale: number): string {
  return values
    .map((value, i) => {
      if (value === undefined) return "";
      const step = width / values.length;
      return `${values[i - 1] === undefined ? "M" : "L"}${i * step} ${round(base - value * scale)}h${step}`;
    })
    .join("");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
