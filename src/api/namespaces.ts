import { z } from "zod";
import type { EraInfo, NamespaceInfo } from "../rule/limits.ts";
import type { InitRequest, RemoveRequest } from "../rule/registry.ts";
import type { Call } from "./call.ts";
import { duration, flag, layout, text, time } from "./fields.ts";
import { answer, type FieldSchemas, type Optional, request, type Schema } from "./schema.ts";

interface InitBody extends Omit<InitRequest, "namespace" | "layout"> {
  readonly layout?: string | undefined;
}

const era: FieldSchemas<EraInfo> = {
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
};

const id = z
  .string()
  .describe("Random, made with the namespace: two registries with the same one are copies.")
  .optional();
export const namespace: Schema<NamespaceInfo> = answer({
  id,
  layout: z.string().describe("The layout of its IDs, as a notation."),
  maxWindow: z.int().describe("The longest window that a claim gets, ms."),
  maxClockSkew: z.int().describe("How far a holder's clock may be from the registry's, ms."),
  ...era,
});

export const read: Call<NamespaceInfo> = {
  method: "GET",
  path: "/v1/:namespace",
  operation: "readNamespace",
  summary: "The fixed properties of a namespace",
  access: "any",
  answer: namespace,
  problems: ["NOT_FOUND"],
};

export const scope: Call<{ readonly scope: string }> = {
  method: "GET",
  path: "/v1/:namespace/scope",
  operation: "readScope",
  summary: "Among whom the worker IDs of a namespace are unique, also of one that does not exist yet",
  access: "any",
  answer: answer({
    scope: z
      .string()
      .describe(
        "Among whom the worker IDs are unique: a phrase such as `all who use schema public of database app on PostgreSQL db1:5432`.",
      ),
  }),
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
    separate: flag
      .describe(
        "Your word that the IDs of this namespace never meet those of one of its name that the daemon sees elsewhere: in another schema or database of its server. Default false.",
      )
      .optional(),
  }),
  answer: namespace,
  problems: ["LAYOUT_MISMATCH", "QUARANTINE"],
};

export const endQuarantine: Call<Optional<NamespaceInfo>, { readonly era: string }> = {
  method: "POST",
  path: "/v1/:namespace/quarantine/end",
  operation: "endQuarantine",
  summary:
    "Your word that every window has passed which the registry forgot: grants and renewals go on, after twice `maxClockSkew`",
  access: "admin",
  body: request({ era: text(128).describe("The era of the namespace, as it was read: no other quarantine is ended.") }),
  // All fields are optional, because a registry may have a note of a quarantine without a namespace.
  answer: answer<Optional<NamespaceInfo>>({
    id,
    layout: z.string().optional(),
    maxWindow: z.int().optional(),
    maxClockSkew: z.int().optional(),
    ...era,
  }),
  problems: ["NOT_FOUND"],
};

interface RemoveBody extends Omit<RemoveRequest, "namespace"> {
  /** The operator's word that no process uses the namespace. */
  readonly iKnow?: boolean | undefined;
  readonly whileHeld?: boolean | undefined;
}

export const remove: Call<void, RemoveBody> = {
  method: "POST",
  path: "/v1/:namespace/remove",
  operation: "removeNamespace",
  summary: "Remove a namespace, with its worker IDs and their history",
  access: "admin",
  status: 204,
  body: request<RemoveBody>({
    era: text(128).describe("The era of the namespace, as it was read: no later namespace of its name is removed."),
    forget: flag
      .describe(
        "Your word that no namespace of this name is ever made again. Without it a note stays: a namespace that is made again begins in quarantine, behind each window that this one granted. Default false.",
      )
      .optional(),
    whileHeld: flag
      .describe("Also while a window of it is open, or a program without windows has a worker ID of it. Default false.")
      .optional(),
    // Optional only for the parser. Its absence has its own message.
    iKnow: flag.meta({ description: "Your word that no process uses the namespace.", const: true }).optional(),
  })
    .refine(
      ({ iKnow }) => iKnow === true,
      "Processes that use the namespace lose their worker IDs; when you know that there is none, add `iKnow: true`.",
    )
    .meta({ required: ["era", "iKnow"] }),
  problems: ["NOT_FOUND", "WORKER_ID_HELD"],
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
