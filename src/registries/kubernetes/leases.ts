import { type AnswerClock, serverNow } from "../answer-clock.ts";
import { Beaten } from "../engine/operate.ts";
import type { ApiClient } from "./client.ts";
import { ApiRefusal, nonsense, refusalError } from "./errors.ts";
import { annotation, type LeaseContent, type LeaseList, type LeaseObject, leaseShape, listShape } from "./objects.ts";

/** Objects of one page of a list: with all of their recents and history, some 6 MB. */
const page = 500;

/** Pauses until a cache has what this client has seen: mostly some ms, ms. */
const [firstPause, longestPause] = [10, 160];

/** How a list may lag: `exact` asks a majority of the etcd, `recent` a cache of the API server, which has all that this client has seen. */
export type Freshness = "exact" | "recent";

/** The values that a write goes by, beside the version. */
const compared = [annotation.namespace, annotation.noted, annotation.record];

/** Whether an object still is as it was read: same version, and same values. */
export function isSame(present: LeaseObject | undefined, read: LeaseObject | undefined): boolean {
  const [one, other] = [present?.metadata, read?.metadata];
  return (
    one?.resourceVersion === other?.resourceVersion &&
    compared.every((key) => one?.annotations[key] === other?.annotations[key])
  );
}

/** The newest version of any object that a client has seen: a cache that is older is too old. */
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

  /** Reads an object, as a majority of the etcd has it; undefined where it does not exist. */
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
    // Without a limit: a later API server answers such a list from its cache, once it has asked the etcd how new that has to be.
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

  /** Reads the many objects with these labels, so many at once, as a majority of the etcd had them when the first page was read. */
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
   * A cache answers all at once, as it is. Undefined where it still does not have what this client has seen: it lags, or the etcd was put
   * back to an older copy, so that its versions come again.
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

  /** @throws Beaten where it exists, Unanswered where the answer is missing. */
  async create(object: LeaseContent, dryRun = false): Promise<LeaseObject> {
    const kind = { apiVersion: "coordination.k8s.io/v1", kind: "Lease" };
    return this.#written("POST", dryRun ? "?dryRun=All" : "", { ...kind, ...object });
  }

  /**
   * Puts an object in the place of the one that was read: same version, and same values. A version alone comes again where the etcd is
   * restored from a snapshot: a write that was decided before, and arrives behind that, would take effect on values that it never saw.
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

  /** Creates an object, or puts it in the place of the one that was read. @throws Beaten, Unanswered */
  put(before: LeaseObject | undefined, object: LeaseContent): Promise<LeaseObject> {
    return before === undefined ? this.create(object) : this.replace(before, object);
  }

  /** Deletes an object as it was read. @throws Beaten, Unanswered */
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
      // A POST finds no namespace of Kubernetes; any other write finds that the object was deleted.
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
    // Not the version of the list: the etcd's own may be ahead of what a cache hears of this kind of objects.
    for (const { metadata } of parsed.data.items) this.#note(metadata.resourceVersion);
    return parsed.data;
  }

  #note(version: string): void {
    this.#seen.version = Math.max(this.#seen.version, versionOf(version));
  }
}

/** Versions are numbers that rise with each write to the etcd; where they are none, a cache may lag. */
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
