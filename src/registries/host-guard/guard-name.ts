/**
 * The name of an abstract Unix socket. It shows which process has a worker ID on this host, and from which registry file. Every user of the
 * host can read such a name, and can make a false one.
 */
export interface GuardName {
  readonly namespace: string;
  readonly workerId: number;
  /** Identifies a registry file: the same in each container that mounts the same file. 16 hex digits. */
  readonly file: string;
  /** User and process as the holder's container numbers them. */
  readonly uid: number;
  readonly pid: number;
  /** When the holder asked for the worker ID, Unix ms. */
  readonly since: number;
  /** Distinguishes two claims of one process: 6 digits to the base of 36. */
  readonly nonce: string;
}

/** The name of the socket, without its first byte, which is 0. At most 107 bytes, the limit of Linux. */
export function guardText({ namespace, workerId, file, uid, pid, since, nonce }: GuardName): string {
  return ["snowlease", namespace, workerId, file, uid, pid, since.toString(36), nonce].join("/");
}

/**
 * The names for one worker ID in the text of `/proc/net/unix`. Lines with another form are ignored, because any program can bind any bytes.
 */
export function guardNamesIn(listing: string, namespace: string, workerId: number): GuardName[] {
  // The kernel shows each byte 0 as @, and some versions of Node fill the rest of the name with such bytes.
  const form = new RegExp(
    ` @snowlease/${namespace}/${workerId}/([0-9a-f]{16})/(\\d{1,10})/(\\d{1,10})/([0-9a-z]{1,9})/([0-9a-z]{6})@*$`,
    "gm",
  );
  return Array.from(listing.matchAll(form), ([, file = "", uid, pid, since = "", nonce = ""]) => ({
    namespace,
    workerId,
    file,
    uid: Number(uid),
    pid: Number(pid),
    since: Number.parseInt(since, 36),
    nonce,
  }));
}
