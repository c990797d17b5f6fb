import { Layout } from "../../id/layout.ts";
import { cannotDrop } from "../../rule/drop.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { noNamespace } from "../../rule/window.ts";
import type { Registry } from "../../rule/registry.ts";
import { checkLayout } from "../../rule/limits.ts";
import * as namespaces from "../../api/namespaces.ts";
import type { AppContext } from "./context.ts";
import { type Route, route } from "./route.ts";

/** Names in an answer, unless it is asked for more, and the most that a registry lists at once. */
const [defaultLimit, mostNames] = [1000, 10_000];

/** Which namespaces there are, what is fixed for one, and the upkeep of its history. */
export function namespaceRoutes({ registry, log, ...defaults }: AppContext): readonly Route[] {
  const endRoute =
    registry.endQuarantine &&
    route(namespaces.endQuarantine, async ({ namespace, body: { era } }) => {
      const info = await registry.endQuarantine?.({ namespace, era });
      if (info === undefined) throw noNamespace(namespace);
      log.warn({ event: "quarantine-ended", namespace, era }, "an operator ended the quarantine");
      return info;
    });

  const dropRoute =
    registry.dropNamespace &&
    route(namespaces.drop, async ({ namespace, body }) => {
      const dropped = await registry.dropNamespace?.({ namespace, ...body });
      if (dropped === undefined) throw cannotDrop(registry.kind);
      log.warn({ event: "namespace-dropped", namespace, id: body.id }, "an operator dropped the namespace");
      return dropped;
    });

  const listRoute =
    registry.namespaces &&
    route(namespaces.list, async ({ visit, query: { after, limit = defaultLimit } }) => {
      const readable: string[] = [];
      let [behind, size, more] = [after, limit, true];
      while (more && readable.length < limit) {
        const page = (await registry.namespaces?.({ after: behind, limit: size })) ?? [];
        // The name of a namespace that this token is not for stays out, also as `next`.
        readable.push(...page.filter((name) => visit.mayRead(name)));
        more = page.length === size || readable.length > limit;
        // Some registries look at all that they have for each page.
        [behind, size] = [page.at(-1), mostNames];
      }
      const found = readable.slice(0, limit);
      return { namespaces: found, ...(more && { next: found.at(-1) }) };
    });

  return [
    ...(listRoute === undefined ? [] : [listRoute]),
    ...(endRoute === undefined ? [] : [endRoute]),
    ...(dropRoute === undefined ? [] : [dropRoute]),
    route(namespaces.read, ({ namespace }) => presentNamespace(registry, namespace)),

    route(namespaces.init, async ({ namespace, body: { layout: text, ...asked } }) => {
      const layout = text === undefined ? defaults.layout : await readLayout(registry, namespace, text);
      const isAbsent = defaults.limits !== undefined && (await registry.describe(namespace)) === undefined;
      return registry.init({ namespace, layout: layout.fingerprint, ...(isAbsent && defaults.limits), ...asked });
    }),

    route(namespaces.prune, async ({ namespace, body: { before } }) => {
      return { pruned: await registry.prune(namespace, before) };
    }),
  ];
}

/** Checks a worker ID against the layout of its namespace, where that exists. @throws SnowleaseError CONFIG_INVALID */
export async function checkWorkerId(registry: Registry, namespace: string, workerId: number): Promise<void> {
  const info = await registry.describe(namespace);
  if (info !== undefined) Layout.parse(info.layout).split(workerId);
}

/** A layout by its name or notation. @throws SnowleaseError CONFIG_INVALID; LAYOUT_MISMATCH when the namespace has another one. */
export async function readLayout(registry: Registry, namespace: string, text: string): Promise<Layout> {
  try {
    return Layout.parse(text);
  } catch (error) {
    const info = await registry.describe(namespace);
    if (info !== undefined) checkLayout(namespace, text, info);
    throw error;
  }
}
