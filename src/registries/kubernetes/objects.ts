import { hash } from "node:crypto";
import { z } from "zod";

/*
 * A registry is made of objects of the kind Lease (coordination.k8s.io/v1), which every cluster has. Nothing is installed.
 *
 *     snowlease-NAMESPACE-facts        the constants of the namespace and its era; or the era that is noted for a missing namespace
 *     snowlease-NAMESPACE-hints        what a claim saw of the whole pool, for the next claims: never believed
 *     snowlease-NAMESPACE-worker-ID    the record of a worker ID, with its last claims
 *
 * The values are JSON in annotations. `spec` shows the holder to people. Snowlease never reads it. Claims select objects by their labels. A
 * `_` of a namespace becomes a `-`.
 */

/** The parts of a Lease object that Snowlease writes. They keep the other values that they already had. */
export interface LeaseContent {
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec?: Readonly<Record<string, unknown>> | undefined;
}

/** A Lease object as the API server has it. */
export interface LeaseObject extends LeaseContent {
  readonly metadata: LeaseContent["metadata"] & {
    readonly resourceVersion: string;
    readonly uid?: string | undefined;
    /** Present if the object was deleted, but stays until its finalizers are removed. */
    readonly deletionTimestamp?: string | undefined;
    readonly finalizers?: readonly string[] | undefined;
  };
}

/** An answer to a list. */
export interface LeaseList {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string | undefined };
  readonly items: readonly LeaseObject[];
}

export const leaseShape: z.ZodType<LeaseObject> = z.looseObject({
  metadata: z.looseObject({
    name: z.string(),
    // The answer to a dry run has no version.
    resourceVersion: z.string().default(""),
    uid: z.string().optional(),
    deletionTimestamp: z.string().optional(),
    finalizers: z.array(z.string()).optional(),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.looseObject({}).optional(),
});

export const listShape: z.ZodType<LeaseList> = z.object({
  metadata: z.object({ resourceVersion: z.string().default(""), continue: z.string().optional() }),
  items: z.array(leaseShape).default([]),
});

/** The annotations with the values of Snowlease. */
export const annotation = {
  namespace: "snowlease/namespace",
  noted: "snowlease/noted-era",
  record: "snowlease/record",
  history: "snowlease/history",
  hints: "snowlease/hints",
} as const;

/** The labels by which claims and lists select objects. Their values are hashes, except the namespace and the worker ID. */
export const label = {
  namespace: "snowlease/namespace",
  worker: "snowlease/worker",
  token: "snowlease/token",
  host: "snowlease/host",
  owner: "snowlease/owner",
} as const;

/** The names of a namespace's objects. */
export class LeaseNames {
  readonly namespace: string;
  readonly #begin: string;

  constructor(namespace: string) {
    this.namespace = namespace;
    this.#begin = `snowlease-${namespace.replaceAll("_", "-")}`;
  }

  get facts(): string {
    return `${this.#begin}-facts`;
  }

  get hints(): string {
    return `${this.#begin}-hints`;
  }

  readonly worker = (workerId: number): string => `${this.#begin}-worker-${workerId}`;

  /** Whether an object has the name of a record of this namespace, or of its hints. */
  isErasable(name: string): boolean {
    const [, workerId] = /-worker-(\d+)$/.exec(name) ?? [];
    return name === this.hints || (workerId !== undefined && name === this.worker(Number(workerId)));
  }

  /** The label of all these objects. The value of a label may not end with a `_`. */
  get labels(): Readonly<Record<string, string>> {
    const { namespace } = this;
    return { [label.namespace]: namespace.endsWith("_") ? `${namespace}.x` : namespace };
  }

  /** Selects all objects. */
  get all(): string {
    return Object.entries(this.labels)
      .map(([key, each]) => `${key}=${each}`)
      .join(",");
  }

  /** Selects all records, or those with this label. */
  selector(name: string = label.worker, value?: string): string {
    return [this.all, label.worker, ...(value === undefined ? [] : [`${name}=${value}`])].join(",");
  }
}

/** The value of a label for any text. */
export function labelOf(text: string): string {
  return hash("sha256", text).slice(0, 32);
}

/** A time in the form that the fields of a Lease have. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
