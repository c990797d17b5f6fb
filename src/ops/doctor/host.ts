import { constants, existsSync, readlinkSync } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { exposedFiles, exposureText } from "../../registries/sqlite/file-mode.ts";
import { type CheckResult, finding } from "./check.ts";
import { clockSync } from "./clock-sync.ts";

/** The first PID namespace of a machine, in every Linux (PROC_PID_INIT_INO). */
const firstPidNamespace = "pid:[4026531836]";

/** File systems on which a registry's file does not keep its promises, by their number in statfs(2). */
const unfit: ReadonlyMap<number, string> = new Map([
  [0x01021994, "in memory (tmpfs): it is lost when the machine restarts"],
  [0x794c7630, "in a container's own layer (overlayfs): it is lost with the container; keep it on a volume"],
  [0x6969, "on NFS: its locks are unreliable; keep it on a local disk, or share a daemon"],
  [0xff534d42, "on CIFS: its locks are unreliable; keep it on a local disk, or share a daemon"],
  [0xfe534d42, "on SMB: its locks are unreliable; keep it on a local disk, or share a daemon"],
]);

/** The detail for a process that is the first one of its container, without an init. */
export const noInit: string =
  "This process is the first one of its container, and no init: zombies that programs leave behind stay. " +
  "Start the container with an init: `docker run --init`, `init: true` in a compose file, or tini in the image.";

export async function checkFile(file: string): Promise<CheckResult> {
  const check = "file";
  const present = existsSync(file);
  const folder = nearestFolder(file);
  try {
    if (present) await access(file, constants.R_OK | constants.W_OK);
    await access(folder, constants.W_OK);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    return finding(check, "fail", `${file} and its folder cannot be written (${code}); correct their permissions.`);
  }
  const problem = unfit.get((await statfs(folder)).type);
  if (problem !== undefined) return finding(check, "warn", `The registry's file ${file} is ${problem}.`);
  const exposed = exposedFiles(file);
  if (exposed.length > 0) return finding(check, "warn", exposureText(exposed));
  const detail = present
    ? `The registry is ${file}.`
    : `${file} does not exist yet; the first claim makes it. If programs use it already, they use another one.`;
  return finding(check, present ? "ok" : "warn", detail);
}

/** The folder of a file, or its nearest existing parent. */
function nearestFolder(file: string): string {
  let folder = dirname(resolve(file));
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

export async function checkSync(): Promise<CheckResult> {
  const check = "clock-sync";
  const { synchronized, source } = (await clockSync()) ?? {};
  if (synchronized === undefined) {
    return finding(
      check,
      "unknown",
      "Neither timedatectl nor chronyc tells here whether this host's clock is synchronized.",
    );
  }
  if (synchronized) return finding(check, "ok", `This host's clock is synchronized (${source}).`);
  return finding(
    check,
    "warn",
    `This host's clock is not synchronized (${source}): after a large drift from the registry's clock, claims and renewals are refused; run an NTP client.`,
  );
}

export function checkProcess(): CheckResult {
  const check = "process";
  const own = process.platform === "linux" ? pidNamespace() : firstPidNamespace;
  if (own === undefined) {
    return finding(check, "unknown", "/proc does not tell whether process IDs here are those of the host.");
  }
  const detail =
    own === firstPidNamespace
      ? "The registry shows the host's own process IDs."
      : `This process has its own PID namespace (${own}), as in a container: outside of it, its process IDs in the registry have no meaning.`;
  return finding(check, "ok", process.pid === 1 ? `${detail} ${noInit}` : detail);
}

function pidNamespace(): string | undefined {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return undefined;
  }
}
