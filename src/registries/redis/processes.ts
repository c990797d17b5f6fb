import { existsSync, readFileSync, readlinkSync } from "node:fs";

/*
 * Which process is which. A pid alone is used again, means another process in another container, and stays that of a zombie: so a
 * process is known by its machine, the machine's boot, the namespace of its pid, its pid and when it was started.
 */

/** Where this process runs: processes of the same place can be looked at from here. Undefined where that cannot be told (not Linux). */
export const place: string | undefined = readPlace();

/** This process among those of its place. */
export const self: string | undefined = place === undefined ? undefined : nameOf(process.pid);

function readPlace(): string | undefined {
  try {
    const machine = ["/etc/machine-id", "/var/lib/dbus/machine-id"].find((file) => existsSync(file));
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    const id = machine === undefined ? "" : readFileSync(machine, "latin1").trim();
    return `${id}/${boot}/${readlinkSync("/proc/self/ns/pid")}/`;
  } catch {
    return undefined;
  }
}

/** Whether a process of this place has ended. What is not of this place, or cannot be read, counts as alive. */
export function isGone(name: string): boolean {
  if (place === undefined || !name.startsWith(place)) return false;
  const pid = Number(name.slice(place.length).split("/")[0]);
  return Number.isSafeInteger(pid) && pid > 0 && nameOf(pid) !== name;
}

function nameOf(pid: number): string | undefined {
  try {
    // The name of the program, in parentheses, may hold anything; the state is the first field behind it, the start the 20th.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\)/s, "").trim().split(" ");
    const ended = fields[0] === "Z" || fields[0] === "X";
    return ended ? undefined : `${place}${pid}/${fields[19]}`;
  } catch {
    return undefined;
  }
}
