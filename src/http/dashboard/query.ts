import { shown, SnowleaseError } from "../../id/errors.ts";
import { type ListFilter, listFilters, type ListOrder, listOrders } from "../../ops/pool/listing.ts";
import { namespacePattern } from "../../api/fields.ts";

/** Longest ID in the address, characters: the rest is ignored. */
const longestId = 200;
/** Longest text to search for, characters: it is repeated in the links of the page. */
const longestText = 64;

/** What the address of a page asks for. */
export interface PageQuery {
  readonly namespace: string | undefined;
  /** Details of this worker ID. */
  readonly worker: number | undefined;
  /** Worker IDs from this one on, to the end of its cell. */
  readonly from: number | undefined;
  /** An ID to explain, and a time near its making. */
  readonly id: string | undefined;
  readonly at: number | undefined;
  /** The list: a text that each of its rows has, which rows, their order, how many come before the first. */
  readonly q: string | undefined;
  readonly state: ListFilter | undefined;
  readonly sort: ListOrder | undefined;
  readonly order: "asc" | "desc" | undefined;
  readonly skip: number | undefined;
  /** The search in a large pool begins behind this worker ID. */
  readonly after: number | undefined;
}

/** Addresses within the dashboard. A value that is undefined stays out. */
export type PageLink = (query: Readonly<Record<string, number | string | undefined>>) => string;

/** @throws SnowleaseError CONFIG_INVALID */
export function readAsked(query: URLSearchParams): PageQuery {
  // A box that was left empty asks for nothing.
  const text = (name: string): string | undefined => query.get(name)?.trim() || undefined;
  const refuse = (name: string, rule: string, value: string): never => {
    const what = `Expected \`${name}\` ${rule}, got ${shown(value)}; correct the address.`;
    throw new SnowleaseError("CONFIG_INVALID", what);
  };
  const integer = (name: string): number | undefined => {
    const value = text(name);
    if (value !== undefined && !/^\d{1,15}$/.test(value)) refuse(name, "to be an integer", value);
    return value === undefined ? undefined : Number(value);
  };
  const word = <Word extends string>(name: string, words: readonly Word[]): Word | undefined => {
    const value = text(name);
    const found = words.find((word) => word === value);
    if (value !== undefined && found === undefined) refuse(name, `to be one of ${words.join(", ")}`, value);
    return found;
  };
  const namespace = text("namespace");
  if (namespace !== undefined && !namespacePattern.test(namespace)) {
    refuse("namespace", `to match ${namespacePattern.source}`, namespace);
  }
  return {
    namespace,
    worker: integer("worker"),
    from: integer("from"),
    id: text("id")?.slice(0, longestId),
    at: integer("at"),
    q: text("q")?.slice(0, longestText),
    state: word("state", listFilters),
    sort: word("sort", listOrders),
    order: word("order", ["asc", "desc"]),
    skip: integer("skip"),
    after: integer("after"),
  };
}

/** Links of a namespace that keep `kept`, unless they say otherwise. */
export function linksIn(namespace: string, kept: Parameters<PageLink>[0] = {}): PageLink {
  return (query) => {
    const asked = Object.entries({ ...kept, ...query }).map(([name, value]) =>
      value === undefined ? "" : `&${name}=${encodeURIComponent(value)}`,
    );
    return `/?namespace=${namespace}${asked.join("")}`;
  };
}
