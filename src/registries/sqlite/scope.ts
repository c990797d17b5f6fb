import { realpathSync, statSync } from "node:fs";
import { hostname, userInfo } from "node:os";

const ofOthers = 0o077;

/** `Registry.scope` of the registry in a file. One path may mean several files, because of a working folder, a home or a container. */
export function scopeOfFile(path: string): string {
  return `the processes ${usersOf(path)}on host \`${hostname()}\` that use the file ${realpathSync(path)}`;
}

/** "of user web " if the mode of the file lets no other user open it. */
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
    // A container may run as a user without a name.
  }
  return String(uid);
}

/**
 * Reports the place of a new registry. A program with another working folder or a missing volume would otherwise silently begin with its
 * own registry.
 */
export function warnOfNewFile(path: string): void {
  process.emitWarning(
    `Made the registry file ${realpathSync(path)}, since there was none. Programs on other files get the same worker IDs; give all of them this path.`,
    { type: "SnowleaseWarning", code: "SNOWLEASE_NEW_REGISTRY" },
  );
}
