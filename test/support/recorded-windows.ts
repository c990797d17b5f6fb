import { expect } from "vitest";
import type { Registry } from "../../src/rule/registry.ts";
import type { Span } from "./spans.ts";

/** A registry whose grants are recorded. */
export interface RecordedWindows {
  readonly registry: Registry;
  /** The namespace of the last granted claim. */
  readonly lastNamespace: string;
  /** Fails if two windows of a worker ID overlap, or a fence came twice. */
  check(): void;
}

/** Records the grants of a registry. After an operator has reset a window by hand, the record of that worker ID begins anew. */
export function recordWindows(registry: Registry): RecordedWindows {
  const spans = new Map<string, Map<number, Span>>();
  let lastNamespace = "";

  const spansOf = (namespace: string, workerId: number): Map<number, Span> => {
    const key = `${namespace}/${workerId}`;
    const known = spans.get(key) ?? new Map<number, Span>();
    spans.set(key, known);
    return known;
  };

  return {
    get lastNamespace() {
      return lastNamespace;
    },
    registry: {
      ...registry,
      async claim(request) {
        const answer = await registry.claim(request);
        if (answer.outcome !== "granted") return answer;
        const { workerId, fence, from, until } = answer;
        lastNamespace = request.namespace;
        spansOf(request.namespace, workerId).set(fence, { workerId, fence, from, until });
        return answer;
      },
      async renew(request) {
        const answer = await registry.renew(request);
        if (answer.outcome !== "renewed") return answer;
        const { namespace, workerId, fence } = request;
        spansOf(namespace, workerId).set(fence, { workerId, fence, from: answer.from, until: answer.until });
        return answer;
      },
      async release(request) {
        const answer = await registry.release(request);
        const { namespace, workerId, fence, used } = request;
        const span = spansOf(namespace, workerId).get(fence);
        if (answer.outcome === "released" && span !== undefined && used !== undefined) span.until = used.until;
        return answer;
      },
      async forceRelease(request) {
        const answer = await registry.forceRelease(request);
        if (request.resetWindow === true) spans.delete(`${request.namespace}/${request.workerId}`);
        return answer;
      },
    },
    check() {
      for (const [key, known] of spans) {
        const inOrder = [...known.values()].toSorted((a, b) => a.fence - b.fence);
        for (const [i, { from, fence }] of inOrder.entries()) {
          const before = inOrder[i - 1];
          if (before !== undefined && from < before.until) {
            expect.fail(`${key}: the window of fence ${fence} begins at ${from}, before ${before.until}.`);
          }
        }
      }
    },
  };
}
