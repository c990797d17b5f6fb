import type { NamespaceLimits } from "../rule/registry.ts";
import type { Capability, ConformanceSubject } from "./subject.ts";
import { Trial } from "./trial.ts";

/** One promise of the registry port. */
export interface ConformanceCheck {
  /** The promise, in words; unique. */
  readonly title: string;
  readonly needs?: Capability | undefined;
  /** Rejects with an Error that says what was promised and what was seen instead. */
  run(subject: ConformanceSubject): Promise<void>;
}

/** How a check works. */
interface CheckOptions {
  readonly needs?: Capability;
  /** Limits of the namespace that the check finds; `false`: it finds none. */
  readonly limits?: Partial<NamespaceLimits> | false;
}

/** A check whose body finds a namespace and one open client, and whose clients are closed behind it. */
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
