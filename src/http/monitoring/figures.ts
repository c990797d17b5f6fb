import { Counter, Gauge, Histogram, type LabelValues, Registry as Collection } from "../../vendor/prom-client.ts";

/** Reads the values of a figure, each with its labels. */
type Read<Label extends string> = () => Iterable<readonly [labels: LabelValues<Label>, value: number]>;

/** Figures in Prometheus' text format. All names begin with `snowlease_`. */
export class Figures {
  readonly collection: Collection = new Collection();

  /** @param read gives the counts whenever the figures are read. Default: the counter is counted by hand. */
  counter<Label extends string>(name: string, help: string, labels?: Label[], read?: Read<Label>): Counter<Label> {
    return new Counter({ ...this.#facts(name, help, labels), ...(read && collecting(read)) });
  }

  /** @param read gives the values whenever the figures are read. Default: the gauge is set by hand. */
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
