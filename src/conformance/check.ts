import type { NamespaceLimits } from "../rule/limits.ts";
import type { Capability, ConformanceSubject } from "./subject.ts";
import { Trial } from "./trial.ts";

/** One requirement of the registry port. */
export interface ConformanceCheck {
  /** The requirement, in words; unique. */
  readonly title: string;
  readonly needs?: Capability | undefined;
  /** Rejects with an Error that says what was expected and what was seen instead. */
  run(subject: ConformanceSubject): Promise<void>;
}

/** Conditions of a check. */
interface CheckOptions {
  readonly needs?: Capability;
  /** Limits of the namespace that is made for the check; `false`: none is made. */
  readonly limits?: Partial<NamespaceLimits> | false;
}

/** Makes a check. Its body gets a namespace and one open client; all clients are closed afterwards. */
export function check(
  title: string,
  body: (trial: Trial) => Promise<void>,
  { needs, limits = {} }: CheckOptions = {},
): ConformanceCheck {
  return {
    title,
    needs,
    async run(subject) {
      const trial = new Trial(subject, await subject.open());
      try {
        if (limits !== false) await trial.init(limits);
        await body(trial);
      } finally {
        await trial.close();
      }
    },
  };
}
