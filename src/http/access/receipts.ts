import { createHmac, timingSafeEqual } from "node:crypto";
import { receiptPattern } from "../../api/call.ts";
import { ignoreRefusal, SnowleaseError } from "../../id/errors.ts";
import { type Clock, monotonic } from "../../clock.ts";
import { namespaceIdIn, readReceipt } from "../../rule/receipt.ts";
import type { Registry } from "../../rule/registry.ts";
import type { ReceiptKey, ReceiptKeys } from "./receipt-keys.ts";
import { BoundedMap } from "../../registries/bounded-map.ts";

/** How many keys of namespaces and how many signatures a daemon remembers, about 4 MB. */
const [mostNamespaces, mostSignatures] = [10_000, 10_000];
/**
 * Receipts of other registries cause at most one look at a namespace in this time, ms. After a namespace's id changes, its receipts may
 * be refused for this time.
 */
const lookPause = 1000;
/** The name of a namespace's own key. No name in a file of keys begins like this. */
const ownName = "-";
const signedPattern = /^(.+)\.([\w-]{1,32})\.([\w-]{43})$/;

/** The facts of a namespace that a receipt is compared with. Without an id if the namespace has none. */
interface PresentNamespace {
  readonly exists: boolean;
  readonly id?: string | undefined;
  readonly own?: ReceiptKey | undefined;
}

/** A signature and its key. Another key may later get the same name. */
interface KeptSignature {
  readonly key: ReceiptKey;
  readonly signature: string;
}

/** A look at a namespace, in progress or done. */
interface NamespaceLook {
  /** Start of the look on the monotonic clock, ms. The result is not older. */
  readonly begun: number;
  readonly found: Promise<PresentNamespace>;
}

/**
 * Signs the registry's receipts, and passes only signed receipts to the registry. Without signatures, a client could begin a quarantine
 * with a receipt that it made up. Receipts of a registry without keys pass unchanged, because another daemon has signed them.
 */
export class Receipts {
  readonly #registry: Registry;
  readonly #configured: ReceiptKeys | undefined;
  /** Namespace/id -> the namespace's own key. */
  readonly #own = new BoundedMap<string, ReceiptKey>(mostNamespaces);
  /** Signed text -> signature. Most requests have the receipt of the last answer. Signing it again takes as long as reading the request. */
  readonly #signatures = new BoundedMap<string, KeptSignature>(mostSignatures);
  readonly #clock: Clock;
  /** Namespace -> the last look. */
  readonly #looks = new BoundedMap<string, NamespaceLook>(mostNamespaces);

  /** @param configured keys in addition to each namespace's own. */
  constructor(registry: Registry, clock: Clock, configured?: ReceiptKeys) {
    this.#registry = registry;
    this.#clock = clock;
    this.#configured = configured;
  }

  /** A receipt as the client gets it. Undefined if the namespace's key cannot be read. The answer then has no receipt. */
  async signed(namespace: string, receipt: string | undefined): Promise<string | undefined> {
    if (receipt === undefined || this.#registry.receiptKey === undefined) return receipt;
    const key = this.#configured?.list[0] ?? (await this.#ownKey(namespace, receipt).catch(ignoreRefusal));
    if (key === undefined) return undefined;
    const text = signedText(namespace, receipt, key.name);
    const signature = signatureOf(key, text);
    this.#signatures.set(text, { key, signature });
    return `${receipt}.${key.name}.${signature}`;
  }

  /**
   * The receipt that a client sent, as the registry wrote it. Undefined for a text that proves nothing.
   * @throws SnowleaseError OTHER_REGISTRY for the unverified receipt of a namespace with another id.
   */
  async verified(namespace: string, sent: string | null): Promise<string | undefined> {
    if (sent === null) return undefined;
    if (this.#registry.receiptKey === undefined) return receiptPattern.test(sent) ? sent : undefined;
    const [, receipt, name, signature = ""] = signedPattern.exec(sent) ?? [];
    if (receipt === undefined) return undefined;
    const isSignedBy = (key: ReceiptKey | undefined): boolean => {
      if (key === undefined || key.name !== name) return false;
      const text = signedText(namespace, receipt, name);
      const kept = this.#signatures.get(text);
      const expected = kept?.key === key ? kept.signature : signatureOf(key, text);
      return timingSafeEqual(Buffer.from(signature), Buffer.from(expected));
    };
    if (this.#configured?.list.some(isSignedBy) === true) return receipt;
    const remembered = this.#own.get(`${namespace}/${namespaceIdIn(receipt)}`);
    if (remembered !== undefined) return isSignedBy(remembered) ? receipt : undefined;
    // A signed text comes from a registry. An unverified text is parsed first, so that an invalid receipt costs no look-up.
    const content = readReceipt(receipt);
    if (content === undefined) return undefined;
    const { exists, id, own } = await this.#look(namespace, this.#now - lookPause);
    if (exists && (id === undefined || id === content.namespaceId)) return isSignedBy(own) ? receipt : undefined;
    throw otherRegistry(namespace);
  }

  async #ownKey(namespace: string, receipt: string): Promise<ReceiptKey | undefined> {
    const id = namespaceIdIn(receipt);
    const remembered = this.#own.get(`${namespace}/${id}`);
    if (remembered !== undefined) return remembered;
    const answered = this.#now;
    const last = await this.#look(namespace, answered - lookPause);
    // The registry has just answered with this id. An earlier look may have found an older id.
    const present = last.id === id ? last : await this.#look(namespace, answered);
    return present.id === id ? present.own : undefined;
  }

  get #now(): number {
    return monotonic(this.#clock);
  }

  /** The facts of a namespace, from a look that began after `since`, on the monotonic clock, ms. */
  #look(namespace: string, since: number): Promise<PresentNamespace> {
    const last = this.#looks.get(namespace);
    if (last !== undefined && last.begun > since) return last.found;
    const look = { begun: this.#now, found: this.#read(namespace) };
    this.#looks.set(namespace, look);
    const forget = (): void => {
      if (this.#looks.get(namespace) === look) this.#looks.delete(namespace);
    };
    // A namespace without an id may get one with its next claim.
    look.found.then(({ id }) => id ?? forget(), forget);
    return look.found;
  }

  async #read(namespace: string): Promise<PresentNamespace> {
    const [info, key] = await Promise.all([this.#registry.describe(namespace), this.#registry.receiptKey?.(namespace)]);
    const own = key === undefined ? undefined : { name: ownName, key: Buffer.from(key, "hex") };
    if (info?.id !== undefined && own !== undefined) this.#own.set(`${namespace}/${info.id}`, own);
    return { exists: info !== undefined, id: info?.id, own };
  }
}

/** The refusal of a holder whose lease belongs to another registry. */
export function otherRegistry(namespace: string): SnowleaseError {
  return new SnowleaseError(
    "OTHER_REGISTRY",
    `This lease in namespace \`${namespace}\` is of another registry than the one behind this daemon: nothing was changed; ask the other daemons, and where each of them answers this, claim again without a receipt.`,
    { namespace },
  );
}

/** The namespace's name is signed, too, so that a receipt is valid in its own namespace only. */
function signedText(namespace: string, receipt: string, keyName: string): string {
  return `${namespace} ${receipt}.${keyName}`;
}

function signatureOf({ key }: ReceiptKey, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}
