import { lstatSync, readlinkSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { SnowleaseError } from "../id/errors.ts";
import type { Log } from "./log.ts";

const everybodyWrites = 0o002;
/** In a sticky folder, only the owner of an entry may remove or rename it. */
const sticky = 0o1000;
/** Linux follows as many. */
const mostLinks = 40;

/**
 * Refuses a folder in which any user can replace the socket. Clients would send their tokens to that user's socket, and get worker IDs
 * that others have. Each folder and link of the path counts. An administrator may let a group or another owner write to a folder. Does
 * nothing on Windows.
 * @param log gets a warning about a folder like /tmp. There the socket is safe only while the daemon listens.
 * @throws SnowleaseError CONFIG_INVALID
 */
export function checkSocketFolder(socket: string, log: Log): void {
  const own = process.getuid?.();
  if (own === undefined) return;
  const folder = dirname(resolve(socket));
  const instead =
    "choose a folder of the daemon's own, or say `insecure` where this machine or container has no other users";
  const refuse = (what: string): never => {
    throw new SnowleaseError(
      "CONFIG_INVALID",
      `Cannot listen on ${socket}: ${what}, so that any user could put another socket in its place; ${instead}.`,
    );
  };
  for (const { parent, parentMode, entry, stat } of stepsTo(folder)) {
    if ((parentMode & everybodyWrites) === 0) continue;
    if ((parentMode & sticky) === 0) refuse(`every user may write to the folder ${parent}`);
    if (stat.uid !== own && stat.uid !== 0) {
      refuse(`${entry} belongs to another user (uid ${stat.uid}), in a folder to which every user may write`);
    }
  }
  const { mode } = statSync(folder);
  if ((mode & everybodyWrites) === 0) return;
  if ((mode & sticky) === 0) refuse(`every user may write to the folder ${folder}`);
  log.warn(
    { event: "exposed", file: socket },
    `any user may listen on ${socket} while this daemon does not: choose a folder of the daemon's own`,
  );
}

/** The entries of the path to a folder. Links are followed. */
function* stepsTo(path: string) {
  const names = partsOf(path);
  let parent = "/";
  for (let name = names.shift(), links = 0; name !== undefined; name = names.shift()) {
    const entry = join(parent, name);
    const stat = lstatSync(entry);
    yield { parent, parentMode: statSync(parent).mode, entry, stat };
    if (!stat.isSymbolicLink()) parent = entry;
    else if (++links <= mostLinks) {
      const target = readlinkSync(entry);
      names.unshift(...partsOf(target));
      if (isAbsolute(target)) parent = "/";
    }
  }
}

function partsOf(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}
