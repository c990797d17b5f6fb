import { counted, timeText } from "../../id/errors.ts";
import { defaultLayout } from "../../id/layout.ts";
import type { Outlook, Plan } from "../../ops/migrate/plan.ts";
import type { MigrationStatus } from "../../ops/migrate/status.ts";
import { linesOf, table } from "../terminal/output.ts";

/* What the steps of a migration print for people. */

/** Hosts, collisions and remarks that are printed. */
export const mostShown = 50;

/** The result of a plan. */
export function outlookText(outlook: Outlook, { hosts, layout, leased }: Plan, file: string): string {
  const { collisions, size, kept, renumbered, retired, taken, left } = outlook;
  const besides = taken === undefined ? "" : `${taken} taken otherwise, `;
  return linesOf(
    `Hosts: ${hosts.length}. Keep their worker ID: ${kept}. Get another one: ${renumbered}. Shared worker IDs: ${collisions.length}.`,
    `Of ${size} worker IDs: ${kept} pinned for their hosts, ${retired} for no host, ${besides}${left} left to claim.`,
    leased.last - leased.first + 1 < size &&
      `While the fleet moves, worker IDs ${leased.first} to ${leased.last} are leased.`,
    layout !== defaultLayout.fingerprint &&
      `The namespace and each program need the layout ${layout} (\`snowlease init --layout ${layout}\`).`,
    left < renumbered &&
      `That is too few: ${counted(renumbered, "host needs", "hosts need")} another one. Use a larger layout or another namespace.`,
    `Wrote the plan to ${file}; the registry is unchanged. Next: \`snowlease migrate apply ${file}\`.`,
  );
}

/** The progress of a fleet. */
export function statusText(status: MigrationStatus): string {
  const { hosts, moved, stopped, old, conflict, unpinned, headroom } = status;
  const rows = hosts
    .filter(({ state }) => state !== "moved")
    .toSorted((a, b) => Number(b.state === "conflict") - Number(a.state === "conflict"))
    .map((host) => {
      const { name, address = "", workerId, state } = host;
      return [workerId, name, address, state === "stopped" ? stoppedText : state, remarkOn(host)];
    });
  const missing = `${unpinned.slice(0, 8).join(", ")}${unpinned.length > 8 ? ", …" : ""}`;
  return linesOf(
    rows.length > 0 && table(["WORKER ID", "HOST", "IP", "STATE", ""], rows.slice(0, mostShown)),
    rows.length > mostShown && `… and ${rows.length - mostShown} more; --json lists all.`,
    `Moved: ${moved} of ${hosts.length}.${stopped > 0 ? ` Moved, not running now: ${stopped}.` : ""} On the old scheme: ${old}. In conflict: ${conflict}.`,
    stopped > 0 &&
      "A host that is not running now may have gone back to the old scheme: start its program with this registry again.",
    headroom !== undefined && headroom.used > 0 && headroomText(headroom),
    unpinned.length > 0 &&
      `No longer pinned: ${counted(unpinned.length, "worker ID")} of the plan (${missing}); run \`snowlease migrate apply\` again.`,
  );
}

const stoppedText = "moved, not running now";

function remarkOn({ rivals = [], unused, renumbered }: MigrationStatus["hosts"][number]): string {
  if (rivals.length > 0) return `shared with ${rivals.join(", ")}`;
  if (unused !== undefined) return `its start at ${timeText(unused.at)} has not used its window yet`;
  return renumbered === undefined ? "" : "gets another one";
}

function headroomText({ kept, used }: NonNullable<MigrationStatus["headroom"]>): string {
  const text = `The source has handed out ${counted(used, "worker ID")} since the plan was made, and ${counted(kept, "is", "are")} kept for it`;
  if (used <= kept) return `${text}.`;
  return `${text}: its next worker ID may be leased. Start no program of the old scheme, and make a new plan with more \`--headroom\`.`;
}
