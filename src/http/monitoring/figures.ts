import { Counter, Gauge, Histogram, type LabelValues, Registry as Collection } from "prom-client";

/** Reads the values of a figure, each with its labels. */
type Read<Label extends string> = () => Iterable<readonly [labels: LabelValues<Label>, value: number]>;

/** Figures in Prometheus' text format. All names begin with `snowlease_`. */
export class Figures {
  readonly collection: Collection = new Collection();

  /** @param read returns the counts each time the figures are read. Default: the caller increments the counter. */
  counter<Label extends string>(name: string, help: string, labels?: Label[], read?: Read<Label>): Counter<Label> {
    return new Counter({ ...this.#facts(name, help, labels), ...(read && collecting(read)) });
  }

  /** @param read returns the values each time the figures are read. Default: the caller sets the gauge. */
  gauge<Label extends string>(name: string, help: string, labels?: Label[], read?: Read<Label>): Gauge<Label> {
    return new Gauge({ ...this.#facts(name, help, labels), ...(read && collecting(read)) });
  }

  histogram<Label extends string>(name: string, help: string, labels: Label[], buckets: number[]): Histogram<Label> {
    return new Histogram({ ...this.#facts(name, help, labels), buckets });
  }

  #facts<Label extends string>(name: string, help: string, labelNames: Label[] = []) {
    return { name: `snowlease_${name}`, help, labelNames, registers: [this.collection] };
  }
}

function collecting<Label extends string>(read: Read<Label>) {
  return {
    collect(this: Counter<Label> | Gauge<Label>): void {
      this.reset();
      for (const [labels, value] of read()) this.inc(labels, value);
    },
  };
}
