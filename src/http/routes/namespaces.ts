import { SnowleaseError } from "../../id/errors.ts";
import { Layout } from "../../id/layout.ts";
import { presentNamespace } from "../../rule/namespace.ts";
import { noNamespace } from "../../rule/window.ts";
import type { Registry } from "../../rule/registry.ts";
import { checkLayout } from "../../rule/limits.ts";
import * as namespaces from "../../api/namespaces.ts";
import { removeNamespace } from "../../ops/remove.ts";
import type { AppContext } from "./context.ts";
import { type Route, route } from "./route.ts";

/** Routes for the fixed facts of a namespace, and for the upkeep of its history. */
export function namespaceRoutes({ registry, log, ...defaults }: AppContext): readonly Route[] {
  const endRoute =
    registry.endQuarantine &&
    route(namespaces.endQuarantine, async ({ namespace, body: { era } }) => {
      const info = await registry.endQuarantine?.({ namespace, era });
      if (info === undefined) throw noNamespace(namespace);
      log.warn({ event: "quarantine-ended", namespace, era }, "an operator ended the quarantine");
      return info;
    });

  const removeRoute =
    registry.remove &&
    route(namespaces.remove, async ({ namespace, body: { era, forget, whileHeld = false } }) => {
      const request = { namespace, era, forget };
      await (whileHeld ? registry.remove?.(request) : removeNamespace(registry, request, "behind this daemon"));
      log.warn({ event: "namespace-removed", namespace, era }, "an operator removed the namespace");
    });

  return [
    ...[endRoute, removeRoute].filter((each) => each !== undefined),
    route(namespaces.read, ({ namespace }) => presentNamespace(registry, namespace)),

    route(namespaces.scope, async ({ namespace }) => {
      const scope = await registry.scope?.(namespace);
      if (scope === undefined) throw unknownScope(registry);
      return { scope };
    }),

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

function unknownScope({ kind }: Registry): SnowleaseError {
  return new SnowleaseError("NOT_FOUND", `The ${kind} registry behind this daemon does not say who uses it.`);
}

/** Checks a worker ID against the layout of its namespace, if the namespace exists. @throws SnowleaseError CONFIG_INVALID */
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
