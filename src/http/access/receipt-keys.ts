import { configInvalid } from "../../id/errors.ts";
import type { Log } from "../../serving/log.ts";
import { readGuardedFile } from "../../serving/guarded-file.ts";

/** A key that signs receipts. */
export interface ReceiptKey {
  readonly name: string;
  readonly key: Buffer;
}

/** The configured keys. The first one signs. */
export interface ReceiptKeys {
  readonly list: readonly ReceiptKey[];
}

const namePattern = /^[a-z\d][\w-]{0,31}$/i;
const keyPattern = /^(?:[\da-f]{2}){16,64}$/i;

/**
 * The keys in a file of lines `NAME KEY`, where `#` begins a comment. The file is read at once, and again with `reload`.
 * @throws SnowleaseError CONFIG_INVALID. If `reload` throws, the keys stay as they were.
 */
export function receiptKeyFile(path: string, log: Log): ReceiptKeys & { reload(): void } {
  const read = (): readonly ReceiptKey[] => parseReceiptKeys(readGuardedFile(path, "receiptKeys", log), path);
  let list = read();
  return {
    get list() {
      return list;
    },
    reload() {
      list = read();
    },
  };
}

/** @throws SnowleaseError CONFIG_INVALID. It names the number of the line but does not quote the line, which may contain a key. */
export function parseReceiptKeys(text: string, path: string): readonly ReceiptKey[] {
  const keys = new Map<string, ReceiptKey>();
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const words = line
      .replace(/(?:^|\s)#.*$/, "")
      .split(/\s+/)
      .filter(Boolean);
    if (words.length === 0) continue;
    const [name = "", key = ""] = words;
    const refuse = (rule: string): never => {
      throw configInvalid(`Expected line ${i + 1} of ${path} to be NAME KEY, ${rule}; correct it.`);
    };
    if (words.length > 2) refuse("and no more");
    if (!namePattern.test(name)) refuse("the first of at most 32 letters, digits, `_` and `-`");
    if (!keyPattern.test(key))
      refuse("the second of 32 to 128 hexadecimal digits, an even number (openssl rand -hex 32)");
    if (keys.has(name)) refuse("each name once");
    keys.set(name, { name, key: Buffer.from(key, "hex") });
  }
  if (keys.size > 0) return [...keys.values()];
  throw configInvalid(`The file ${path} has no key to sign receipts with; add a line NAME KEY.`);
}
