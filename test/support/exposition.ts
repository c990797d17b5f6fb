/** A sample: its labels as they are written, and its value. */
interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric: all samples under one TYPE. */
export interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/gy;
const suffixes = /_(?:bucket|sum|count)$/;

/** Parses figures in Prometheus' text format, by metric. Throws for everything that the format does not allow. */
export function parseExposition(text: string): ReadonlyMap<string, Family> {
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  const helps = new Map<string, string>();
  let current = "";
  if (!text.endsWith("\n")) throw new Error("The last line does not end.");
  for (const line of text.slice(0, -1).split("\n")) {
    if (line === "") continue;
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === "HELP") helps.set(name, rest);
    else if (keyword === "TYPE") {
      if (families.has(name)) throw new Error(`${name} comes twice.`);
      if (!/^(?:counter|gauge|histogram|summary|untyped)$/.test(rest)) throw new Error(`${name} is a ${rest}.`);
      families.set(name, { type: rest, help: helps.get(name) ?? "", samples: [] });
      current = name;
    } else {
      if (seen.has(line.replace(/ \S+$/, ""))) throw new Error(`Twice: ${line}`);
      seen.add(line.replace(/ \S+$/, ""));
      const sample = parseSample(line);
      const family = families.get(current);
      const base = family?.type === "histogram" || family?.type === "summary" ? sample.name.replace(suffixes, "") : "";
      if (family === undefined || (sample.name !== current && base !== current)) throw new Error(`Astray: ${line}`);
      family.samples.push(sample);
    }
  }
  for (const [name, family] of families) check(name, family);
  return families;
}

/** The value of the one sample with this name and these labels; undefined if there is none. */
export function valueOf(text: string, name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
  const samples = parseExposition(text).get(name)?.samples ?? [];
  const wanted = Object.entries(labels);
  const found = samples.filter((sample) => wanted.every(([key, value]) => sample.labels[key] === value));
  if (found.length > 1) throw new Error(`${name} ${JSON.stringify(labels)} fits ${found.length} samples.`);
  return found[0]?.value;
}

function parseSample(line: string): Sample {
  const [, name, inner = "", digits = ""] = sampleLine.exec(line) ?? [];
  if (name === undefined) throw new Error(`No sample: ${line}`);
  const pairs = [...inner.matchAll(label)];
  if (pairs.map(([whole]) => whole).join("") !== inner) throw new Error(`Labels: ${line}`);
  const labels = Object.fromEntries(pairs.map(([, key = "", value = ""]) => [key, value]));
  if (Object.keys(labels).length < pairs.length) throw new Error(`A label twice: ${line}`);
  const value = /^[+-]?Inf$/.test(digits) ? Number(digits.replace("Inf", "Infinity")) : Number(digits);
  if (Number.isNaN(value) && !/^[Nn]a[Nn]$/.test(digits)) throw new Error(`No number: ${line}`);
  return { name, labels, value };
}

/** Checks the rules for every metric, and those for a metric with one of our names. */
function check(name: string, { type, help, samples }: Family): void {
  if (name.startsWith("snowlease_")) {
    if (help === "") throw new Error(`${name} has no HELP.`);
    if ((type === "counter") !== name.endsWith("_total")) throw new Error(`${name} is a ${type}.`);
  }
  if (type === "counter" && samples.some(({ value }) => !(value >= 0))) throw new Error(`${name} is below 0.`);
  if (type === "histogram") checkHistogram(name, samples);
}

/** Checks that the buckets of each series rise up to +Inf, which is the count. */
function checkHistogram(name: string, samples: readonly Sample[]): void {
  for (const [key, ones] of seriesOf(samples)) {
    const buckets = ones.filter((sample) => sample.name === `${name}_bucket`);
    const bounds = buckets.map(({ labels }) => Number((labels["le"] ?? "").replace("Inf", "Infinity")));
    const rises = (values: readonly number[]): boolean =>
      values.every((value, i) => i === 0 || value >= (values[i - 1] ?? 0));
    const count = ones.find((sample) => sample.name === `${name}_count`)?.value;
    if (!rises(bounds) || !rises(buckets.map(({ value }) => value))) throw new Error(`${name} ${key} falls.`);
    if (bounds.at(-1) !== Infinity || buckets.at(-1)?.value !== count) throw new Error(`${name} ${key} has no end.`);
  }
}

function seriesOf(samples: readonly Sample[]): ReadonlyMap<string, Sample[]> {
  const series = new Map<string, Sample[]>();
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels;
    const key = JSON.stringify(labels);
    series.set(key, [...(series.get(key) ?? []), sample]);
  }
  return series;
}
