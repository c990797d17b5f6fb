import { type AnswerClock, serverNow } from "../answer-clock.ts";
import { Beaten } from "../engine/operate.ts";
import type { ApiClient } from "./client.ts";
import { ApiRefusal, nonsense, refusalError } from "./errors.ts";
import { annotation, type LeaseContent, type LeaseList, type LeaseObject, leaseShape, listShape } from "./objects.ts";

/** How many objects one page of a list has. With all of their recents and history, these are some 6 MB. */
const page = 500;

/** Pauses while a cache does not yet have what this client has seen, ms. Mostly the cache has it after some ms. */
const [firstPause, longestPause] = [10, 160];

/**
 * How far a list may lag. `exact` asks a majority of the etcd. `recent` asks a cache of the API server that has all that this client has
 * seen.
 */
export type Freshness = "exact" | "recent";

/** The values that a write expects, in addition to the version. */
const compared = [annotation.namespace, annotation.noted, annotation.record];

/** Whether an object still is as it was read: same version, and same values. */
export function isSame(present: LeaseObject | undefined, read: LeaseObject | undefined): boolean {
  const [one, other] = [present?.metadata, read?.metadata];
  return (
    one?.resourceVersion === other?.resourceVersion &&
    compared.every((key) => one?.annotations[key] === other?.annotations[key])
  );
}

/** The newest version of any object that a client has seen. A cache with an older version is too old. */
export interface Seen {
  version: number;
}

/** The reads and writes of one attempt, in one namespace of Kubernetes. */
export class Leases {
  readonly #client: ApiClient;
  readonly #place: string;
  readonly #deadline: number;
  readonly #seen: Seen;
  #clock: AnswerClock | undefined;

  constructor(client: ApiClient, place: string, deadline: number, seen: Seen) {
    this.#client = client;
    this.#place = place;
    this.#deadline = deadline;
    this.#seen = seen;
  }

  /** The clock of the API server that answered last, Unix ms. */
  now(): number {
    return serverNow(this.#client.clock, this.#clock);
  }

  /** Reads an object, as a majority of the etcd has it; undefined if it does not exist. */
  async get(name: string): Promise<LeaseObject | undefined> {
    try {
      return this.#object(await this.#ask("GET", `/${name}`));
    } catch (error) {
      if (error instanceof ApiRefusal && error.status === 404) return undefined;
      throw this.#told(error);
    }
  }

  /** Reads the few objects with these labels. */
  async list(selector: string, freshness: Freshness): Promise<readonly LeaseObject[]> {
    const labels = labelsOf(selector);
    const found = freshness === "recent" ? await this.#recent(labels) : undefined;
    // Asks without a limit. Newer API servers answer such a list from their cache, after they have asked the etcd how new it must be.
    return found ?? (await this.#page(labels)).items;
  }

  /** Reads the many objects with these labels. */
  async listAll(selector: string, freshness: Freshness): Promise<readonly LeaseObject[]> {
    const found = freshness === "recent" ? await this.#recent(labelsOf(selector)) : undefined;
    return found ?? this.#exact(selector);
  }

  async #exact(selector: string): Promise<readonly LeaseObject[]> {
    const found: LeaseObject[] = [];
    for await (const items of this.pages(selector, page)) found.push(...items);
    return found;
  }

  /** Reads the many objects with these labels, `size` at a time, as a majority of the etcd had them when the first page was read. */
  async *pages(selector: string, size: number): AsyncGenerator<readonly LeaseObject[], void, undefined> {
    for (let next = ""; ;) {
      const path = `${labelsOf(selector)}&limit=${size}${next}`;
      const { items, metadata } = await this.#page(path);
      yield items;
      const token = metadata.continue ?? "";
      if (token === "") return;
      next = `&continue=${encodeURIComponent(token)}`;
    }
  }

  /**
   * A cache answers with all objects at once, as it has them. Undefined if the cache still does not have what this client has seen. The
   * cache then lags, or an operator put the etcd back to an older copy, so that its versions come again.
   */
  async #recent(labels: string): Promise<readonly LeaseObject[] | undefined> {
    const wanted = this.#seen.version;
    for (let pause = firstPause; pause <= longestPause; pause *= 2) {
      const { items, metadata } = await this.#page(`${labels}&resourceVersion=0`);
      if (versionOf(metadata.resourceVersion) >= wanted) return items;
      await this.#client.pause(pause);
    }
    if (this.#seen.version === wanted) this.#seen.version = 0;
    return undefined;
  }

  pause(ms: number): Promise<void> {
    return this.#client.pause(ms);
  }

  /** @throws Beaten if the object exists, Unanswered if the answer is missing. */
  async create(object: LeaseContent, dryRun = false): Promise<LeaseObject> {
    const kind = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };
    return this.#written("POST", dryRun ? "?dryRun=All" : "", { ...kind, ...object });
  }

  /**
   * Replaces the object that was read. The object must still have the same version and the same values. The version alone is not enough: it
   * can come again if an operator restores the etcd from a snapshot. A write that was decided before the restore and arrives after it would
   * take effect on values that its writer never saw.
   * @throws Beaten, Unanswered
   */
  async replace(before: LeaseObject, object: LeaseContent, dryRun = false): Promise<LeaseObject> {
    const { name, labels, annotations } = object.metadata;
    const values = compared.flatMap((key) => {
      const value = before.metadata.annotations[key];
      return value === undefined ? [] : [{ op: "test", path: `/metadata/annotations/${pointer(key)}`, value }];
    });
    const patch = [
      { op: "replace", path: "/metadata/resourceVersion", value: before.metadata.resourceVersion },
      ...values,
      { op: "add", path: "/metadata/labels", value: labels },
      { op: "add", path: "/metadata/annotations", value: annotations },
      ...(object.spec === undefined ? [] : [{ op: "add", path: "/spec", value: object.spec }]),
    ];
    return this.#written("PATCH", `/${name}${dryRun ? "?dryRun=All" : ""}`, patch);
  }

  /** Creates an object, or replaces the one that was read. @throws Beaten, Unanswered */
  put(before: LeaseObject | undefined, object: LeaseContent): Promise<LeaseObject> {
    return before === undefined ? this.create(object) : this.replace(before, object);
  }

  /** Deletes an object if it still is as it was read. @throws Beaten, Unanswered */
  async remove({ metadata: { name, uid, resourceVersion } }: LeaseObject, dryRun = false): Promise<void> {
    const preconditions = { uid, resourceVersion };
    const body = { kind: "DeleteOptions", apiVersion: "v1", preconditions, ...(dryRun && { dryRun: ["All"] }) };
    await this.#orBeaten("DELETE", `/${name}`, body);
  }

  async #written(method: "POST" | "PATCH", path: string, object: object): Promise<LeaseObject> {
    return this.#object(await this.#orBeaten(method, path, object));
  }

  async #orBeaten(method: "POST" | "PATCH" | "DELETE", path: string, body: object): Promise<unknown> {
    try {
      return await this.#ask(method, path, body);
    } catch (error) {
      if (!(error instanceof ApiRefusal)) throw error;
      // With 404, a POST found no namespace of Kubernetes. Any other write found that the object was deleted.
      const isGone = error.status === 404 && method !== "POST";
      if (error.status === 409 || isGone || error.isFailedTest) {
        throw new Beaten("another writer was faster", { cause: error });
      }
      throw this.#told(error);
    }
  }

  /** @throws ApiRefusal, Unanswered, SnowleaseError */
  async #ask(method: "GET" | "POST" | "PATCH" | "DELETE", rest: string, body?: object): Promise<unknown> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.#place}/leases${rest}`;
    const call = { method, path, body, writes: method !== "GET", deadline: this.#deadline };
    const { json, clock } = await this.#client.call(call);
    this.#clock = clock;
    return json;
  }

  #told(error: unknown): unknown {
    return error instanceof ApiRefusal ? refusalError(error, `${this.#client.where}/${this.#place}`) : error;
  }

  #object(json: unknown): LeaseObject {
    const parsed = leaseShape.safeParse(json);
    if (!parsed.success) throw nonsense(this.#client.where, json);
    this.#note(parsed.data.metadata.resourceVersion);
    return parsed.data;
  }

  async #page(query: string): Promise<LeaseList> {
    const json = await this.#ask("GET", query).catch((error: unknown) => {
      throw this.#told(error);
    });
    const parsed = listShape.safeParse(json);
    if (!parsed.success) throw nonsense(this.#client.where, json);
    // Notes the versions of the objects, not of the list. The list's version is the etcd's, which may be ahead of the changes of these
    // objects.
    for (const { metadata } of parsed.data.items) this.#note(metadata.resourceVersion);
    return parsed.data;
  }

  #note(version: string): void {
    this.#seen.version = Math.max(this.#seen.version, versionOf(version));
  }
}

/** Versions are numbers that rise with each write to the etcd. If a version is not a number, a cache may lag. */
function versionOf(version: string): number {
  return /^\d{1,15}$/.test(version) ? Number(version) : 0;
}

/** A name as a part of a JSON Pointer. */
function pointer(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

function labelsOf(selector: string): string {
  return `?labelSelector=${encodeURIComponent(selector)}`;
}
