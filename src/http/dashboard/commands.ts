import { html } from "../../vendor/hono.ts";
import type { WorkerRecord } from "../../rule/registry.ts";
import type { Html } from "./text.ts";

/** Where commands are sent, and whether that needs a token. */
export interface CommandTarget {
  readonly namespace: string;
  /** The URL of this daemon, as the browser reached it. */
  readonly registry: string;
  readonly needsToken: boolean;
}

interface ShownCommand {
  readonly purpose: string;
  /** Each as a shell reads it. */
  readonly words: readonly string[];
}

/** A text that any POSIX shell reads as one word, as it stands. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * What an operator can do to a worker ID, as command lines. They contain no text that others wrote: a name with control characters would be
 * obeyed by the terminal into which it is pasted.
 */
function commandsFor(
  workerId: number,
  record: WorkerRecord | undefined,
  { namespace, registry }: CommandTarget,
): readonly ShownCommand[] {
  const command = (...words: readonly string[]): readonly string[] =>
    ["snowlease", ...words, "--namespace", namespace, "--registry", registry].map(shellQuoted);
  const id = String(workerId);
  const { state, fence = 0, releasedAt, pinned } = record ?? {};
  const found: ShownCommand[] = [];
  if (state === "live") {
    const purpose = "End the claim of its holder. The worker ID stays reserved until its window has passed.";
    found.push({ purpose, words: command("release", id, "--force", "--fence", String(fence)) });
  } else if (state !== "foreign" && fence > 0 && releasedAt === undefined) {
    found.push({
      purpose: "End the claim that its holder never gave back.",
      words: command("release", id, "--fence", String(fence)),
    });
  }
  found.push(
    pinned === undefined
      ? {
          purpose: "Keep the worker ID out of the pool. A present holder goes on.",
          words: command("pin", id, "--reason", "kept out by an operator"),
        }
      : { purpose: "Put the worker ID back into the pool.", words: command("unpin", id) },
  );
  return found;
}

/** The commands, each with a button that copies it where scripts run. */
export function commandsPart(workerId: number, record: WorkerRecord | undefined, target: CommandTarget): Html {
  return html`<h3>
      Commands ${target.needsToken && html`<span class="sub">need a token of the role admin in SNOWLEASE_TOKEN</span>`}
    </h3>
    <ul class="commands">
      ${commandsFor(workerId, record, target).map(
        ({ purpose, words }) =>
          html`<li>
            <span>${purpose}</span><code>${words.map((word, i) => html`${i > 0 && " "}<span>${word}</span>`)}</code
            ><button type="button" class="copy" hidden>Copy</button>
          </li>`,
      )}
    </ul>`;
}
