// Holds a document that can be put back to an older copy of itself against the contract, with a write on its way meanwhile; and one
// whose answers are lost: `npx tsx examples/own-registry/late-writes.ts`. With `version++` in the place of the random number, two
// holders get one number.

import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { conformance, type ConformanceSubject, type LateStore, type LossyStore, runCheck } from "snowlease/conformance";
import { type Document, documentRegistry } from "./document-registry.ts";

/** A document in memory. Each write draws its version: a counted one comes again when an older copy is put back. */
class MemoryDocument implements Document {
  #content = { version: 0, text: "" };

  async read(): Promise<{ readonly version: number; readonly text: string }> {
    return this.#content;
  }

  async replace(version: number, text: string): Promise<boolean> {
    if (version !== this.#content.version) return false;
    this.#content = { version: randomInt(2 ** 47), text };
    return true;
  }

  copy(): () => void {
    const kept = this.#content;
    return () => void (this.#content = kept);
  }
}

/** A client whose writes can be kept on their way. */
function late(document: MemoryDocument): LateStore {
  let kept = Promise.resolve();
  let isKept = (): void => undefined;
  let arrive = (): void => undefined;
  const slow: Document = {
    read: () => document.read(),
    async replace(version, text) {
      isKept();
      await kept;
      return document.replace(version, text);
    },
  };
  return {
    registry: documentRegistry(slow),
    keepNext() {
      kept = new Promise((resolve) => (arrive = resolve));
      return new Promise((resolve) => (isKept = resolve));
    },
    copy: async () => {
      const putBack = document.copy();
      return async () => putBack();
    },
    arrive: () => arrive(),
  };
}

/** A client whose answers can be lost. */
function lossy(document: MemoryDocument): LossyStore {
  let lost = Promise.resolve();
  let isKept: (() => void) | undefined;
  let lose = (): void => undefined;
  const broken: Document = {
    read: () => document.read(),
    async replace(version, text) {
      const isDone = await document.replace(version, text);
      if (isKept === undefined) return isDone;
      isKept();
      isKept = undefined;
      await lost;
      throw new Error("the connection broke");
    },
  };
  return {
    registry: documentRegistry(broken),
    keepAnswer() {
      lost = new Promise((resolve) => (lose = resolve));
      return new Promise((resolve) => (isKept = resolve));
    },
    lose: () => lose(),
  };
}

async function subject(): Promise<ConformanceSubject> {
  const document = new MemoryDocument();
  return {
    namespace: "orders",
    open: async () => documentRegistry(document),
    pause: sleep,
    now: Date.now,
    late: async () => late(document),
    lossy: async () => lossy(document),
  };
}

const count = { passed: 0, skipped: 0, failed: 0 };
for (const check of conformance) {
  if (check.needs?.some((need) => need === "late-writes" || need === "lost-answers") !== true) continue;
  const result = await runCheck(check, subject);
  count[result.outcome] += 1;
  if (result.outcome === "failed") console.log(`FAILED: ${result.title}: ${String(result.error)}`);
}
console.log(count);
process.exitCode = count.failed === 0 ? 0 : 1;
