import { isSnowleaseError, type SnowleaseError } from "../../id/errors.ts";
import type { Clock } from "../../lease/clock.ts";
import type { NamespaceInfo } from "../../rule/limits.ts";
import type { UnknownNamespace } from "../../rule/unknown-namespace.ts";
import { serverNow } from "../answer-clock.ts";
import { BoundedMap } from "../bounded-map.ts";
import { operate, type Try } from "../engine/operate.ts";
import type { StoredNamespace } from "../compare-and-set/store.ts";
import type { ApiClient } from "./client.ts";
import { ApiRefusal, refusalError, silentError } from "./errors.ts";
import { Leases, type Seen } from "./leases.ts";
import { label, type LeaseObject, type LeaseNames } from "./objects.ts";
import { type LeaseRecord, readFacts, readNoted, readRecord } from "./records.ts";

/** One attempt, with its reads and writes. */
export interface KubernetesTry extends Try {
  readonly leases: Leases;
}

/** A namespace as an attempt reads it. */
export interface KubernetesNamespace extends StoredNamespace {
  readonly facts: LeaseObject;
  readonly receiptKey: string;
}

/** A name without a namespace. */
interface KubernetesUnknown extends UnknownNamespace {
  /** The object with the noted era. */
  readonly note: LeaseObject | undefined;
}

/** What an attempt finds under a name: one of both. */
export interface FactsRead {
  readonly clock: number;
  readonly state: KubernetesNamespace | undefined;
  readonly unknown: KubernetesUnknown | undefined;
}

/** Tokens of claims that are remembered, and numbers of a namespace that other claimers took first. */
const [mostSent, mostTaken] = [1000, 4096];

/** The objects of a registry, the clock, and what this client remembers. */
export class KubernetesStore {
  readonly title: string;
  /** How many claims are under way. */
  claiming = 0;
  /** Tokens of claims whose write was sent: the same claim may come again. */
  readonly sent: BoundedMap<string, true> = new BoundedMap(mostSent);
  /** Worker IDs that this client has just seen used, by the id of their namespace: hints lag. */
  readonly #taken: BoundedMap<string, number> = new BoundedMap(mostTaken);
  readonly #client: ApiClient;
  readonly #place: string;
  readonly #clock: Clock;
  readonly #seen: Seen = { version: 0 };

  constructor(client: ApiClient, place: string, clock: Clock) {
    this.title = `Kubernetes ${client.where}/${place}`;
    this.#client = client;
    this.#place = place;
    this.#clock = clock;
  }

  /** Makes attempts until one is done. `repeatable`: as of `operate`. */
  async run<Answer>(
    work: (tried: KubernetesTry) => Promise<Answer>,
    { repeatable }: { readonly repeatable: boolean } = { repeatable: true },
  ): Promise<Answer> {
    const { where, operationTimeout } = this.#client;
    const silent = (cause: Error): SnowleaseError => silentError(where, operationTimeout, true, cause);
    const operated = { title: this.title, clock: this.#clock, operationTimeout, silent };
    return operate(operated, { repeatable }, async (tried) => {
      const leases = new Leases(this.#client, this.#place, tried.deadline, this.#seen);
      try {
        return await work({ ...tried, leases });
      } catch (error) {
        throw error instanceof ApiRefusal ? refusalError(error, `${where}/${this.#place}`) : error;
      }
    });
  }

  /** Reads a namespace. */
  async read(leases: Leases, names: LeaseNames): Promise<FactsRead> {
    const object = await leases.get(names.facts);
    const clock = this.now(leases);
    const facts = readFacts(object);
    if (object === undefined || facts === undefined) {
      return { clock, state: undefined, unknown: { clock, noted: readNoted(object), note: object } };
    }
    const { era, ...stored } = facts;
    return { clock, state: { ...era, ...stored, facts: object, clock }, unknown: undefined };
  }

  /** The API server's clock, Unix ms. */
  now({ clock }: Leases): number {
    return serverNow(this.#clock, clock);
  }

  /** Remembers that a worker ID was used until then, Unix ms. */
  noteTaken({ id }: NamespaceInfo, workerId: number, until: number): void {
    this.#taken.set(`${id}/${workerId}`, until);
  }

  /** Until when this client has seen a worker ID used. */
  takenUntil({ id }: NamespaceInfo, workerId: number): number | undefined {
    return this.#taken.get(`${id}/${workerId}`);
  }

  close(): void {
    this.#client.close();
  }
}

/** Reads the record of a worker ID. */
export async function readAt(leases: Leases, names: LeaseNames, workerId: number): Promise<LeaseRecord | undefined> {
  if (!Number.isSafeInteger(workerId) || workerId < 0) return undefined;
  const object = await leases.get(names.worker(workerId));
  return object && readRecord(object, workerId);
}

/** The same for an object of a list; undefined for one that Snowlease did not write: a claim of that number reports it. */
export function listedRecord(names: LeaseNames, object: LeaseObject): LeaseRecord | undefined {
  const workerId = Number(object.metadata.labels[label.worker]);
  if (!Number.isSafeInteger(workerId) || object.metadata.name !== names.worker(workerId)) return undefined;
  try {
    return readRecord(object, workerId);
  } catch (error) {
    if (isSnowleaseError(error, "SCHEMA_INCOMPATIBLE")) return undefined;
    throw error;
  }
}
