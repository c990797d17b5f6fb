import type { Registry } from "../rule/registry.ts";

/** What a case of a proof needs besides a registry: a way to start the server again; or that it notices a clock that is ahead. */
export type ProofNeed = "restart" | "clock";

/** A registry on which processes lease, and a namespace of it that exists, has the layout `westid` and is unused. */
export interface ProofSubject {
  /**
   * Where the processes find the registry: its URL, or the `file:` URL of a module whose default export opens a registry of
   * one's own, `() => Registry` or a promise of one.
   */
  readonly url: string;
  readonly namespace: string;
  /** A view on it, to read what was stored. */
  readonly registry: Registry;
  /** What else stands in a process's environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** Whether the registry uses the clock of the process that asks, as an embedded one does. Default false. */
  readonly usesHostClock?: boolean | undefined;
  /** Whether the registry refuses a process whose clock is far ahead. Default true. */
  readonly noticesClock?: boolean | undefined;
  /** Ends the server at once, as if its machine had stopped, and starts it again with what it had saved. */
  restart?(): Promise<void>;
  /** Deletes what was made for this case. */
  close?(): Promise<void>;
}
