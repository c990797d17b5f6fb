import { html } from "hono/html";
import type { Picture } from "../../ops/pool/pool-watch.ts";
import { canBeShortened, endCommand } from "../../rule/quarantine.ts";
import type { WorkerRecord } from "../../rule/registry.ts";
import type { Html } from "./text.ts";

/* The page changes nothing. It shows commands that do. */

/** A command of `snowlease`, and its effect. */
interface ShownCommand {
  readonly command: string;
  readonly does: string;
}

/** The commands for one worker ID. `registry`: the URL of this daemon. `record`: undefined if the worker ID was never used. */
export function commandsFor(
  workerId: number,
  record: WorkerRecord | undefined,
  { registry, namespace }: { readonly registry: string; readonly namespace: string },
): Html {
  const at = `--registry ${registry} --namespace ${namespace}`;
  const isLive = record?.state === "live";
  const release: ShownCommand = {
    command: `snowlease release ${workerId} ${at} --force`,
    does: "Ends the claim. Its holder learns of that at its next renewal. Nobody gets the worker ID before its window has passed.",
  };
  const pin: ShownCommand = {
    command: `snowlease pin ${workerId} ${at} --reason "WHY"`,
    does: "Keeps the worker ID out of the pool. Its present holder goes on.",
  };
  const unpin: ShownCommand = {
    command: `snowlease unpin ${workerId} ${at}`,
    does: "Puts the worker ID back into the pool.",
  };
  return listed([...(isLive ? [release] : []), record?.pinned === undefined ? pin : unpin]);
}

/** The command that claims a worker ID, for a namespace without holders. */
export function claimCommand(registry: string, namespace: string): Html {
  const command = `snowlease id --registry ${registry} --namespace ${namespace}`;
  return listed([{ command, does: "Claims a worker ID, prints an ID, and releases the worker ID." }]);
}

/** The command that ends a quarantine early. Empty if no command does. */
export function endingPart({ info, namespace, clock }: Picture, registry: string): Html | string {
  const { era = "", quarantineUntil = 0, maxClockSkew } = info;
  if (quarantineUntil <= clock || !canBeShortened({ era, clock, opensAt: quarantineUntil, maxClockSkew })) return "";
  const does =
    "Ends the quarantine earlier. It is your word that each process that got a worker ID of this namespace from this registry before has stopped. If one of them still runs, it and the next holder of its worker ID make the same IDs.";
  return listed([{ command: endCommand(namespace, era, `--registry ${registry}`), does }]);
}

function listed(commands: readonly ShownCommand[]): Html {
  return html`<ul class="commands">
    ${commands.map(
      ({ command, does }) =>
        html`<li>
          <code>${command}</code>
          <span class="sub">${does}</span>
        </li>`,
    )}
  </ul>`;
}
