import * as z from "../vendor/zod.ts";
import type { NamespaceInfo } from "../rule/limits.ts";
import type { Dropped, DropRequest, InitRequest, NamespacesPage } from "../rule/registry.ts";
import type { Call } from "./call.ts";
import { duration, flag, layout, page, text, time } from "./fields.ts";
import { answer, parameters, request } from "./schema.ts";

interface InitBody extends Omit<InitRequest, "namespace" | "layout"> {
  readonly layout?: string | undefined;
}

const namespace = answer<NamespaceInfo>({
  id: z.string().describe("Random, made with the namespace: two registries with the same one are copies.").optional(),
  layout: z.string(),
  maxWindow: z.int().describe("The longest window that a claim gets, ms."),
  maxClockSkew: z.int().describe("How far a holder's clock may be from the registry's, ms."),
  quarantineUntil: z
    .int()
    .describe("Until when the registry grants and renews nothing, Unix ms; absent outside of a quarantine.")
    .optional(),
  quarantineEnd: z
    .int()
    .describe(
      "The end of the last quarantine as the registry set it, Unix ms, even where an operator ended it earlier.",
    )
    .optional(),
  era: z.string().describe("The present era, which an operator names to end its quarantine.").optional(),
});

/** A page of names; `next` goes into `after` for the next one. */
interface NamespacesAnswer {
  readonly namespaces: readonly string[];
  readonly next?: string | undefined;
}

export const list: Call<NamespacesAnswer, undefined, NamespacesPage> = {
  method: "GET",
  path: "/v1",
  operation: "listNamespaces",
  summary: "Names of the namespaces that exist, in ascending order, in pages",
  about:
    "A token for some namespaces gets these alone. A Redis looks at every key of its server for each page, so ask for large ones there.",
  access: "read",
  partly: true,
  query: parameters<NamespacesPage>({
    after: text(32).describe("Only names behind this one.").optional(),
    limit: page.describe("Default 1000.").optional(),
  }),
  answer: answer<NamespacesAnswer>({
    namespaces: z.array(z.string()),
    next: z.string().describe("Present when there may be more: the `after` to ask for them with.").optional(),
  }),
};

export const read: Call<NamespaceInfo> = {
  method: "GET",
  path: "/v1/:namespace",
  operation: "readNamespace",
  summary: "The fixed properties of a namespace",
  access: "any",
  answer: namespace,
  problems: ["NOT_FOUND"],
};

export const init: Call<NamespaceInfo, InitBody> = {
  method: "PUT",
  path: "/v1/:namespace",
  operation: "createNamespace",
  summary: "Create a namespace, or check that it is as requested",
  access: "admin",
  body: request<InitBody>({
    layout: layout("the daemon's"),
    maxWindow: duration.exactOptional(),
    maxClockSkew: time.exactOptional(),
    new: flag
      .describe(
        "Your word that this namespace never existed: refused where the registry knows anything of it. Without it, Redis creates the namespace in quarantine. Default false.",
      )
      .optional(),
  }),
  answer: namespace,
  problems: ["LAYOUT_MISMATCH", "QUARANTINE"],
};

export const endQuarantine: Call<NamespaceInfo, { readonly era: string }> = {
  method: "POST",
  path: "/v1/:namespace/quarantine/end",
  operation: "endQuarantine",
  summary: "Your word that every window has passed which the registry forgot: grants and renewals go on",
  access: "admin",
  body: request({ era: text(128).describe("The era of the namespace, as it was read: no other quarantine is ended.") }),
  answer: namespace,
  problems: ["NOT_FOUND"],
};

export const drop: Call<Dropped, Omit<DropRequest, "namespace">> = {
  method: "POST",
  path: "/v1/:namespace/drop",
  operation: "dropNamespace",
  summary: "Drop a namespace: its records, pins and history",
  about:
    "Refused while a window has not passed (WORKER_ID_HELD), while a worker ID is pinned (the same), and in a quarantine. A namespace that is made under the same name later begins in quarantine, and must have the same layout.",
  access: "admin",
  body: request({
    id: text(64).describe("The id of the namespace, as it was read: no other namespace of the name is dropped."),
    final: flag
      .describe("Nothing stays, not even a note, and nothing stands in the way: only for the namespaces of trials.")
      .optional(),
  }),
  answer: answer({
    grantsFrom: z
      .int()
      .describe("A namespace that is made under this name grants nothing before, Unix ms; absent after a `final` drop.")
      .optional(),
  }),
  problems: ["NOT_FOUND", "WORKER_ID_HELD", "QUARANTINE"],
};

export const prune: Call<{ readonly pruned: number }, { readonly before: number }> = {
  method: "POST",
  path: "/v1/:namespace/prune",
  operation: "pruneHistory",
  summary: "Delete old history",
  access: "admin",
  body: request({
    before: time.describe("Rows whose window ended before this time are deleted; the last row of a worker ID stays."),
  }),
  answer: answer({ pruned: z.int() }),
  problems: ["NOT_FOUND"],
};
