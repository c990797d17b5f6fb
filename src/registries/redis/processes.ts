import { existsSync, readFileSync, readlinkSync } from "node:fs";

/*
 * Names of processes. A pid alone does not identify a process. The system uses a pid again, a pid means another process in another
 * container, and a zombie keeps its pid. So a name consists of the machine, its boot, the namespace of the pid, the pid, and the start time
 * of the process.
 */

/** Where this process runs. It can look at processes of the same place. Undefined if the place is unknown (not Linux). */
export const place: string | undefined = readPlace();

/** The name of this process. */
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

/** Whether a process of this place has ended. A process of another place, or one that cannot be read, counts as alive. */
export function isGone(name: string): boolean {
  if (place === undefined || !name.startsWith(place)) return false;
  const pid = Number(name.slice(place.length).split("/")[0]);
  return Number.isSafeInteger(pid) && pid > 0 && nameOf(pid) !== name;
}

function nameOf(pid: number): string | undefined {
  try {
    // The name of the program, in parentheses, may contain any character. After it, the first field is the state and the 20th is the start.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\)/s, "").trim().split(" ");
    const ended = fields[0] === "Z" || fields[0] === "X";
    return ended ? undefined : `${place}${pid}/${fields[19]}`;
  } catch {
    return undefined;
  }
}
