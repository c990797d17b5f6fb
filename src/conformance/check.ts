import type { Capability, ConformanceSubject } from "./subject.ts";
import { Trial } from "./trial.ts";

/** One requirement of the registry port. */
export interface ConformanceCheck {
  /** The requirement, in words; unique. */
  readonly title: string;
  readonly needs?: readonly Capability[] | undefined;
  /** Rejects with an Error that says what was expected and what was seen instead. */
  run(subject: ConformanceSubject): Promise<void>;
}

type Body = (trial: Trial) => Promise<void>;

/** Makes a check. Its body gets a namespace and one open client; all clients are closed afterwards. */
export function check(title: string, body: Body, ...needs: readonly Capability[]): ConformanceCheck {
  const withNamespace: Body = async (trial) => {
    await trial.init();
    await body(trial);
  };
  return checkNew(title, withNamespace, ...needs);
}

/** Makes a check whose namespace does not exist yet. */
export function checkNew(title: string, body: Body, ...needs: readonly Capability[]): ConformanceCheck {
  return {
    title,
    needs,
    async run(subject) {
      const trial = new Trial(subject, await subject.open());
      try {
        await body(trial);
      } finally {
        await trial.close();
      }
    },
  };
}
