import { realpathSync, statSync } from "node:fs";
import { hostname, userInfo } from "node:os";

const ofOthers = 0o077;

/** `Registry.scope` of the registry in a file. A working folder, a home or a container may give one path to several files. */
export function scopeOfFile(path: string): string {
  return `the processes ${usersOf(path)}on host \`${hostname()}\` that use the file ${realpathSync(path)}`;
}

/** "of user web " where its mode lets no other user open the file. */
function usersOf(path: string): string {
  const { mode, uid } = statSync(path);
  // On other systems a mode means little.
  if (process.getuid === undefined || (mode & ofOthers) !== 0) return "";
  return `of user ${nameOf(uid)} `;
}

function nameOf(uid: number): string {
  try {
    const own = userInfo();
    if (own.uid === uid) return own.username;
  } catch {
    // A container may run a user who has no name.
  }
  return String(uid);
}

/** Tells where a new registry is: a program that was led elsewhere, by its working folder or a missing volume, begins with one of its own. */
export function warnOfNewFile(path: string): void {
  process.emitWarning(
    `Made the registry file ${realpathSync(path)}, since there was none. Programs on other files get the same worker IDs; give all of them this path.`,
    { type: "SnowleaseWarning", code: "SNOWLEASE_NEW_REGISTRY" },
  );
}
