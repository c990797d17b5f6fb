import { edited } from "../../../src/conformance/receipts.ts";
import { isSnowleaseError, SnowleaseError } from "../../../src/id/errors.ts";
import type { NamespaceInfo } from "../../../src/rule/limits.ts";
import { readReceipt, type Receipt } from "../../../src/rule/receipt.ts";
import type {
  ClaimKey,
  Grant,
  Lost,
  Registry,
  ReleaseRequest,
  RenewRequest,
  SeparateRequest,
  Turns,
} from "../../../src/rule/registry.ts";
import { storedToken } from "../../../src/rule/token.ts";
import { checkClaim } from "../../../src/rule/window.ts";
import { type Fault, granting, keyOf, reset, type Wrap } from "./fault.ts";

const bare = { turn: undefined, nextTurn: undefined, sentTurns: undefined };
const cloned: Lost = { outcome: "lost", reason: "cloned" };

/** A mistake in how the registry reads receipts. The change returns undefined for a receipt that counts as absent. */
function reading(
  change: (
    receipt: Receipt,
    info: NamespaceInfo,
    request: { readonly namespace: string },
    registry: Registry,
  ) => Partial<Receipt> | undefined | Promise<Partial<Receipt> | undefined>,
): Wrap {
  return (registry) => {
    const read = async (request: { readonly namespace: string }, text?: string): Promise<string | undefined> => {
      const receipt = readReceipt(text);
      const info = await registry.describe(request.namespace);
      if (text === undefined || receipt === undefined || info === undefined) return text;
      const changes = await change(receipt, info, request, registry);
      return changes && edited(text, changes);
    };
    return {
      claim: async (request) => registry.claim({ ...request, recall: await read(request, request.recall) }),
      renew: async (request) => registry.renew({ ...request, receipt: await read(request, request.receipt) }),
      release: async (request) => registry.release({ ...request, receipt: await read(request, request.receipt) }),
    };
  };
}

/** Shows the registry a receipt of another store. */
async function beginQuarantine(registry: Registry, request: RenewRequest | ReleaseRequest): Promise<void> {
  const { receipt = "" } = request;
  await registry.release({ ...request, receipt: edited(receipt, { namespaceId: "0" }), workerId: request.workerId });
}

/** Mistakes in turns. */
const turnFaults: readonly Fault[] = [
  {
    fault: "ignores turns",
    rejectedBy: [
      "a renewal out of turn is lost `cloned`, and changes nothing",
      "of ten copies that renew at the same time, one is renewed",
      "a renewal repeated with its turn is answered from the record, and changes nothing",
      "a request without turns cannot touch a record that has one",
      "a claim repeated with its token after a renewal with a turn is lost `cloned`",
      "a give-back out of turn is lost `cloned`, and changes nothing",
    ],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew({ ...request, ...bare });
        return answer.outcome === "lost" ? answer : { ...answer, turn: request.nextTurn };
      },
      release: (request) => registry.release({ ...request, ...bare }),
    }),
  },
  {
    fault: "answers no turn",
    rejectedBy: [
      "each renewal answers the turn that it stored, and the next one names it",
      "the first renewal after a claim takes any turn",
    ],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        return answer.outcome === "lost" ? answer : { ...answer, turn: undefined };
      },
    }),
  },
  {
    fault: "takes any number of sent turns",
    rejectedBy: ["a renewal may name 8 turns that were sent since the last answer"],
    wrap: (registry) => ({
      renew: (request) => registry.renew({ ...request, sentTurns: request.sentTurns?.slice(-8) }),
    }),
  },
  {
    fault: "takes no turn but the acknowledged one",
    rejectedBy: [
      "a renewal may name 8 turns that were sent since the last answer",
      "a give-back after a renewal whose answer was lost is taken",
    ],
    wrap: (registry) => ({
      renew: (request) => registry.renew({ ...request, sentTurns: undefined }),
      release: (request) => registry.release({ ...request, sentTurns: undefined }),
    }),
  },
  {
    fault: "moves the window of a repeated renewal",
    rejectedBy: ["a renewal repeated with its turn is answered from the record, and changes nothing"],
    wrap: (registry) => {
      const seen = new Set<string>();
      return {
        renew: async (request) => {
          const answer = await registry.renew(request);
          const { nextTurn } = request;
          if (answer.outcome === "lost" || nextTurn === undefined) return answer;
          if (seen.has(nextTurn)) return { ...answer, until: request.clock + request.window };
          seen.add(nextTurn);
          return answer;
        },
      };
    },
  },
  {
    fault: "answers a repeated renewal from the record although its window has passed",
    rejectedBy: ["a renewal repeated after its window has passed opens it again, in the same turn"],
    wrap: (registry) => {
      const answered = new Map<string, Awaited<ReturnType<Registry["renew"]>>>();
      return {
        renew: async (request) => {
          const { nextTurn = "" } = request;
          const first = answered.get(nextTurn);
          const answer = first ?? (await registry.renew(request));
          if (nextTurn !== "" && answer.outcome === "renewed") answered.set(nextTurn, answer);
          return answer;
        },
      };
    },
  },
  {
    fault: "takes a turn that does not move on for a repeat",
    rejectedBy: ["a renewal whose `nextTurn` is its `turn` is refused, and changes nothing"],
    wrap: (registry) => ({
      renew: (request) => registry.renew({ ...request, ...(request.turn === request.nextTurn && { turn: undefined }) }),
    }),
  },
  {
    fault: "does not count a renewal that opens a window again",
    rejectedBy: ["a renewal that opens a window again counts, in its receipt, too"],
    wrap: (registry) => {
      const renewals = new Map<string, number>();
      return {
        renew: async (request) => {
          const answer = await registry.renew(request);
          const { nextTurn } = request;
          if (answer.outcome === "lost" || nextTurn === undefined || answer.receipt === undefined) return answer;
          const first = renewals.get(nextTurn) ?? readReceipt(answer.receipt)?.renewals ?? 0;
          renewals.set(nextTurn, first);
          return { ...answer, receipt: edited(answer.receipt, { renewals: first }) };
        },
      };
    },
  },
  {
    fault: "refuses a first renewal with a turn",
    rejectedBy: ["the first renewal after a claim takes any turn"],
    wrap: (registry) => {
      const known = new Set<string>();
      return {
        renew: async (request) => {
          if (request.turn !== undefined && !known.has(keyOf(request))) return cloned;
          known.add(keyOf(request));
          return registry.renew(request);
        },
      };
    },
  },
  {
    fault: "keeps the turn for the next claim",
    rejectedBy: ["no turn passes to the next claim of the worker ID"],
    wrap: (registry) => {
      const turns = new Map<string, string>();
      return {
        renew: async (request) => {
          const place = `${request.namespace} ${request.workerId}`;
          const turn = turns.get(place);
          const sent = [request.turn, request.nextTurn, ...(request.sentTurns ?? [])];
          if (turn !== undefined && !sent.includes(turn)) return cloned;
          const answer = await registry.renew(request);
          if (answer.outcome === "renewed" && answer.turn !== undefined) turns.set(place, answer.turn);
          return answer;
        },
      };
    },
  },
  {
    fault: "gives a copy the renewed window",
    rejectedBy: ["a claim repeated with its token after a renewal with a turn is lost `cloned`"],
    wrap: (registry) => {
      const grants = new Map<string, Grant>();
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") grants.set(request.token, answer);
          const grant = grants.get(request.token);
          return answer.outcome === "lost" && answer.reason === "cloned" && grant !== undefined ? grant : answer;
        },
      };
    },
  },
  {
    fault: "takes the give-back of a copy",
    rejectedBy: [
      "a give-back out of turn is lost `cloned`, and changes nothing",
      "a request without turns cannot touch a record that has one",
    ],
    wrap: (registry) => {
      const turns = new Map<string, Turns["turn"]>();
      return {
        renew: async (request) => {
          const answer = await registry.renew(request);
          if (answer.outcome === "renewed") turns.set(keyOf(request), answer.turn);
          return answer;
        },
        release: (request) => registry.release({ ...request, turn: turns.get(keyOf(request)) }),
      };
    },
  },
  {
    fault: "does not say how a claim was lost",
    rejectedBy: [
      "a lost claim says whether it was taken over or released",
      "a renewal out of turn is lost `cloned`, and changes nothing",
    ],
    wrap: (registry) => {
      const silent = <Answer extends { outcome: string }>(answer: Answer | Lost): Answer | Lost =>
        answer.outcome === "lost" ? { outcome: "lost" } : answer;
      return {
        renew: async (request) => silent(await registry.renew(request)),
        release: async (request) => silent(await registry.release(request)),
      };
    },
  },
];

/** Mistakes in receipts. */
const proofFaults: readonly Fault[] = [
  {
    fault: "takes any text for a receipt",
    rejectedBy: ["a text that no registry can have written is no receipt"],
    wrap: (registry) => {
      const real = new Map<string, string | undefined>();
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted") real.set(request.token, answer.receipt);
          return answer;
        },
        renew: async (request) => {
          const { receipt, token } = request;
          const isText = receipt !== undefined && readReceipt(receipt) === undefined;
          if (isText) await beginQuarantine(registry, { ...request, receipt: real.get(token) });
          return registry.renew(request);
        },
      };
    },
  },
  {
    fault: "answers no receipts",
    rejectedBy: [
      "a grant and each renewal answer a receipt that the registry takes",
      "a receipt says what the registry stored, and counts the renewals",
    ],
    wrap: (registry, clock) => ({
      ...granting(() => ({ receipt: undefined }))(registry, clock),
      renew: async (request) => {
        const answer = await registry.renew(request);
        return answer.outcome === "lost" ? answer : { ...answer, receipt: undefined };
      },
    }),
  },
  {
    fault: "does not count renewals",
    rejectedBy: [
      "a receipt says what the registry stored, and counts the renewals",
      "after a quarantine a holder's window begins at its end, and its renewals count on",
    ],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        if (answer.outcome === "lost" || answer.receipt === undefined) return answer;
        return { ...answer, receipt: edited(answer.receipt, { renewals: 0 }) };
      },
    }),
  },
  {
    fault: "does not look at the namespace's id",
    rejectedBy: ["a renewal with a receipt of a namespace with another id begins a quarantine"],
    wrap: reading((_, { id = "" }) => ({ namespaceId: id })),
  },
  {
    fault: "does not look at the number of renewals",
    rejectedBy: [
      "a renewal with a receipt of more renewals than the record counts begins a quarantine",
      "after a quarantine a holder's window begins at its end, and its renewals count on",
    ],
    wrap: reading(() => ({ renewals: 0 })),
  },
  {
    fault: "takes a claim without a record for one that is over",
    rejectedBy: ["a renewal with a receipt of a worker ID that has no record begins a quarantine"],
    wrap: reading(async ({ workerId }, _, { namespace }, registry) => {
      return (await registry.worker(namespace, workerId)) === undefined ? undefined : {};
    }),
  },
  {
    fault: "does not look at the era of a receipt",
    rejectedBy: [
      "a renewal with a receipt of a later era than the present one begins a quarantine",
      "a renewal with a receipt of an era that began at the same time as the present one begins a quarantine",
    ],
    wrap: reading((_, { era = "" }) => ({ era })),
  },
  {
    fault: "takes a claim that it does not know yet for one that is over",
    rejectedBy: [
      "a renewal with a receipt of a higher fence than the record's begins a quarantine",
      "a renewal with a receipt of a higher fence than that of a claim which was given back begins a quarantine",
    ],
    wrap: reading(async ({ workerId, fence }, _, { namespace }, registry) => {
      const record = await registry.worker(namespace, workerId);
      return record !== undefined && record.fence < fence ? undefined : {};
    }),
  },
  {
    fault: "takes another claim under the same fence for its successor",
    rejectedBy: ["a renewal with a receipt of another token under the record's fence begins a quarantine"],
    wrap: (registry) => {
      const tokens = new Map<string, string>();
      const nameOf = ({ namespace, workerId, fence }: Omit<ClaimKey, "token">): string =>
        [namespace, workerId, fence].join();
      return {
        claim: async (request) => {
          const answer = await registry.claim(request);
          if (answer.outcome === "granted")
            tokens.set(nameOf({ ...answer, ...request, workerId: answer.workerId }), request.token);
          return answer;
        },
        renew: async (request) => {
          const token = tokens.get(nameOf(request)) ?? request.token;
          return registry.renew(token === request.token ? request : { ...request, receipt: undefined });
        },
      };
    },
  },
  {
    fault: "takes each receipt for one of the request's own claim",
    rejectedBy: ["a receipt of another claim than the request's is ignored"],
    wrap: (registry) => ({
      renew: async (request) => {
        const { workerId, fence, token, receipt } = request;
        const own = { workerId, fence, token: storedToken(token) };
        const isReceipt = readReceipt(receipt) !== undefined;
        return registry.renew(isReceipt ? { ...request, receipt: edited(receipt ?? "", own) } : request);
      },
    }),
  },
  {
    fault: "does not say which times are in doubt",
    rejectedBy: [
      "a holder beside another claim is lost at once, until no clock shows a time in that claim's window",
      "a renewal after another claim of the same times is lost with the times in doubt, and begins no quarantine",
      "a renewal with a receipt of a higher fence than the record's begins a quarantine",
      "a renewal with a receipt of another token under the record's fence begins a quarantine",
    ],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        return answer.outcome === "lost" ? { ...answer, doubt: undefined } : answer;
      },
    }),
  },
  {
    fault: "takes a forced release for a loss of its own",
    rejectedBy: ["a receipt that the registry may contradict begins no quarantine"],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        const isReleased = answer.outcome === "lost" && answer.reason === "released";
        if (isReleased && request.receipt !== undefined) await beginQuarantine(registry, request);
        return answer;
      },
    }),
  },
  {
    fault: "ignores what receipts prove",
    rejectedBy: [
      "a renewal with a receipt of a namespace with another id begins a quarantine",
      "a give-back with a receipt that the registry contradicts begins a quarantine, and is not clean",
      "a claim that recalls what the registry contradicts begins a quarantine, and is not granted",
      "holders that show the same loss at the same time begin one quarantine",
    ],
    wrap: reading(() => undefined),
  },
  {
    fault: "ignores recalls",
    rejectedBy: [
      "a claim that recalls what the registry contradicts begins a quarantine, and is not granted",
      "a claim that recalls a lease is not granted in a namespace that does not exist",
    ],
    wrap: (registry) => ({ claim: (request) => registry.claim({ ...request, recall: undefined }) }),
  },
  {
    fault: "believes the usage of a holder whose renewals it forgot",
    rejectedBy: ["a give-back with a receipt that the registry contradicts begins a quarantine, and is not clean"],
    wrap: (registry) => ({
      release: async (request) => {
        const answer = await registry.release({ ...request, receipt: undefined });
        if (request.receipt !== undefined) await registry.release(request);
        return answer;
      },
    }),
  },
  {
    fault: "does not remember which namespace a holder proved",
    rejectedBy: [
      "a namespace that a renewal proved is made in quarantine, by a claim or by `init`",
      "a namespace that a give-back proved is made in quarantine",
    ],
    wrap: (registry) => {
      const exists = async ({ namespace }: ClaimKey): Promise<boolean> =>
        (await registry.describe(namespace)) !== undefined;
      return {
        renew: async (request) => {
          if (request.receipt === undefined || (await exists(request))) return registry.renew(request);
          throw quarantine;
        },
        release: async (request) =>
          request.receipt === undefined || (await exists(request))
            ? registry.release(request)
            : { outcome: "lost", reason: "forgotten" },
      };
    },
  },
  {
    fault: "lets a holder wait for a namespace for ever",
    rejectedBy: ["a holder of a namespace that does not exist is lost once every forgotten window has passed"],
    wrap: (registry) => ({
      renew: async (request) => {
        const answer = await registry.renew(request);
        if (request.receipt === undefined || (await registry.describe(request.namespace)) !== undefined) return answer;
        throw quarantine;
      },
    }),
  },
  {
    fault: "makes a namespace for a holder that shows a receipt",
    rejectedBy: ["a receipt in a namespace that does not exist is answered QUARANTINE, and makes no namespace"],
    wrap: (registry) => ({
      renew: async (request) => {
        const { namespace, receipt } = request;
        if (receipt !== undefined && (await registry.describe(namespace)) === undefined) {
          await registry.init({ namespace, layout: "timestamp:41,worker:10,sequence:12@1490346283706/1" });
        }
        return registry.renew(request);
      },
    }),
  },
];

const quarantine = new SnowleaseError("QUARANTINE", "Wait.", { retryAfterMs: 1 });

/** Mistakes in quarantines and eras. */
const eraFaults: readonly Fault[] = [
  {
    fault: "checks a claim before it tells of a quarantine",
    rejectedBy: ["in a quarantine a claim is refused with QUARANTINE, whatever else is wrong with it"],
    wrap: (registry, clock) => ({
      claim: async (request) => {
        const info = await registry.describe(request.namespace);
        if (info !== undefined) checkClaim(request, clock.now(), info);
        return registry.claim(request);
      },
    }),
  },
  {
    fault: "begins a quarantine for evidence that the last one covers",
    rejectedBy: [
      "evidence from before a quarantine that covers it begins no second one",
      "holders that show the same loss at the same time begin one quarantine",
    ],
    wrap: (registry, clock) => {
      const { renew = registry.renew } = reading((_, { era = "" }) => ({ era }))(registry, clock);
      let last: Promise<unknown> = Promise.resolve();
      return {
        renew: (request) => {
          const answer = last.then(() => renew(request));
          last = answer.catch(() => undefined);
          return answer;
        },
      };
    },
  },
  {
    fault: "does not look at the end of a receipt's window",
    rejectedBy: [
      "a renewal reaches the end that its receipt names",
      "evidence of a window that ends after the quarantine begins another one",
      "a quarantine is as long as the largest limits that the registry and a receipt know, and ends after each receipt's window",
    ],
    wrap: (registry, clock) => reading(({ until }) => ({ until: Math.min(until, clock.now()) }))(registry, clock),
  },
  {
    fault: "does not look at the limits of a receipt",
    rejectedBy: [
      "a quarantine is as long as the largest limits that the registry and a receipt know, and ends after each receipt's window",
    ],
    wrap: reading(() => ({ maxWindow: 1, maxClockSkew: 1 })),
  },
  {
    fault: "grants in a quarantine",
    rejectedBy: [
      "in a quarantine nothing is granted or renewed, and give-backs are answered",
      "a claim that recalls what the registry contradicts begins a quarantine, and is not granted",
    ],
    wrap: (registry, clock) => ({
      claim: async (request) => {
        try {
          return await registry.claim(request);
        } catch (error) {
          if (!isSnowleaseError(error, "QUARANTINE")) throw error;
          const now = clock.now();
          return { outcome: "granted", workerId: 77, fence: now, from: now, until: now + request.window, clock: now };
        }
      },
    }),
  },
  {
    fault: "renews in a quarantine",
    rejectedBy: ["in a quarantine nothing is granted or renewed, and give-backs are answered"],
    wrap: (registry, clock) => ({
      renew: async (request) => {
        try {
          return await registry.renew(request);
        } catch (error) {
          if (!isSnowleaseError(error, "QUARANTINE")) throw error;
          const now = clock.now();
          return { outcome: "renewed", from: now, until: now + request.window, clock: now };
        }
      },
    }),
  },
  {
    fault: "refuses give-backs in a quarantine",
    rejectedBy: [
      "in a quarantine nothing is granted or renewed, and give-backs are answered",
      "a give-back with a receipt that the registry contradicts begins a quarantine, and is not clean",
    ],
    wrap: (registry) => ({
      release: async (request) => {
        const answer = await registry.release(request);
        if ((await registry.describe(request.namespace))?.quarantineUntil !== undefined) throw quarantine;
        return answer;
      },
    }),
  },
  {
    fault: "keeps `from` of an older era",
    rejectedBy: ["after a quarantine a holder's window begins at its end, and its renewals count on"],
    wrap: (registry) => ({
      renew: async (request) => {
        const before = await registry.worker(request.namespace, request.workerId);
        const answer = await registry.renew(request);
        return answer.outcome === "renewed" && before !== undefined ? { ...answer, from: before.from } : answer;
      },
    }),
  },
  {
    fault: "grants fences of an older era again",
    rejectedBy: ["after a quarantine fences and windows are above its end, and no holder continues"],
    wrap: granting(({ fence }) => ({ fence: fence > 1e9 ? 1 : fence })),
  },
  {
    fault: "lowers `quarantineEnd` at an operator's word",
    rejectedBy: ["an operator ends a quarantine by its era, and `quarantineEnd` stays"],
    wrap: (registry, clock) => {
      const lowered = (info: NamespaceInfo): NamespaceInfo =>
        info.quarantineEnd === undefined ? info : { ...info, quarantineEnd: info.quarantineUntil ?? clock.now() };
      return {
        describe: async (namespace) => {
          const info = await registry.describe(namespace);
          return info && lowered(info);
        },
        endQuarantine: async (request) => lowered((await registry.endQuarantine?.(request)) as NamespaceInfo),
      };
    },
  },
  {
    fault: "lets an operator's word begin the quarantine anew",
    rejectedBy: ["an operator's word makes no quarantine longer"],
    wrap: (registry, clock) => ({
      endQuarantine: async (request) => {
        const info = (await registry.endQuarantine?.(request)) as NamespaceInfo;
        return { ...info, quarantineUntil: clock.now() + 2 * info.maxClockSkew + 1 };
      },
    }),
  },
  {
    fault: "ends whatever quarantine lasts",
    rejectedBy: ["an operator ends a quarantine by its era, and `quarantineEnd` stays"],
    wrap: (registry) => ({
      endQuarantine: async ({ namespace }) => {
        const { era = "" } = (await registry.describe(namespace)) ?? {};
        return (await registry.endQuarantine?.({ namespace, era })) as NamespaceInfo;
      },
    }),
  },
  {
    fault: "ends the quarantine of a namespace that it does not have",
    rejectedBy: ["the end of a quarantine in an unknown namespace is NOT_FOUND"],
    wrap: (registry) => ({
      endQuarantine: async (request) => {
        if ((await registry.describe(request.namespace)) === undefined) {
          return { layout: "", maxWindow: 1, maxClockSkew: 1 };
        }
        return (await registry.endQuarantine?.(request)) as NamespaceInfo;
      },
    }),
  },
  {
    fault: "takes a namespace for new that is in quarantine",
    rejectedBy: ["`init` with `new` is refused where a quarantine is recorded"],
    wrap: (registry) => ({
      init: async (request) => {
        const { quarantineEnd } = (await registry.describe(request.namespace)) ?? {};
        return registry.init({ ...request, new: quarantineEnd === undefined && request.new });
      },
    }),
  },
];

const copyTitle = "a copy that is separated has another id and receipt key, is in quarantine, and keeps its records";

/** A mistake in how an operator separates a copy. */
function separating(
  fault: string,
  title: string,
  separate: (registry: Registry, request: SeparateRequest) => Promise<unknown>,
): Fault {
  const wrap: Wrap = (registry) => ({
    separate: async (request) => (await separate(registry, request)) as NamespaceInfo,
  });
  return { fault, rejectedBy: [title], wrap };
}

/** Mistakes with a copy that is used for another purpose. */
const copyFaults: readonly Fault[] = [
  separating("keeps the id of the original", copyTitle, async (registry, { namespace }) =>
    registry.describe(namespace),
  ),
  {
    fault: "keeps the receipt key of the original",
    rejectedBy: [copyTitle],
    wrap: (registry) => {
      const keys = new Map<string, string | undefined>();
      return {
        receiptKey: async (namespace) => keys.get(namespace) ?? registry.receiptKey?.(namespace),
        separate: async (request) => {
          keys.set(request.namespace, await registry.receiptKey?.(request.namespace));
          return (await registry.separate?.(request)) as NamespaceInfo;
        },
      };
    },
  },
  separating(
    "separates a copy of whatever era, and again where it is asked again",
    copyTitle,
    async (registry, { namespace }) =>
      registry.separate?.({ namespace, era: (await registry.describe(namespace))?.era ?? "" }),
  ),
  separating("opens a copy as soon as it is separated", copyTitle, async (registry, request) => {
    const info = await registry.separate?.(request);
    return registry.endQuarantine?.({ namespace: request.namespace, era: info?.era ?? "" });
  }),
  separating("forgets a claim of a copy", copyTitle, async (registry, request) => {
    await reset(registry, { namespace: request.namespace, workerId: 7, force: true });
    return registry.separate?.(request);
  }),
  {
    fault: "ends a quarantine of a copy that is separated",
    rejectedBy: ["a quarantine of a copy ends no earlier where the copy is separated"],
    wrap: (registry, clock) => ({
      separate: async (request) => {
        const info = (await registry.separate?.(request)) as NamespaceInfo;
        const { maxWindow, maxClockSkew } = info;
        const quarantineUntil = clock.now() + maxWindow + 2 * maxClockSkew;
        return { ...info, quarantineUntil };
      },
    }),
  },
  {
    fault: "does not know a receipt of the original",
    rejectedBy: [
      "a holder of a store that is separated by mistake renews after the quarantine; later receipts of the original begin another one",
    ],
    wrap: reading(({ namespaceId }, { id }) => (namespaceId === id ? {} : undefined)),
  },
  separating(
    "separates a namespace that it does not have",
    "to separate an unknown namespace is NOT_FOUND",
    async (registry, request) =>
      (await registry.describe(request.namespace)) === undefined ? {} : registry.separate?.(request),
  ),
];

/** Whether another claim has the worker ID, or had it last. */
async function isOver(registry: Registry, { namespace, workerId, fence }: ClaimKey): Promise<boolean> {
  const record = await registry.worker(namespace, workerId);
  return record !== undefined && (record.fence > fence || record.releasedAt !== undefined);
}

/** Mistakes with another claim that had the worker ID at the same times. */
const doubledFaults: readonly Fault[] = [
  {
    fault: "leaves the window open where a renewal shows that another claim had the same times",
    rejectedBy: [
      "where another claim of the same times was given back, a renewal closes the window up to its own end",
      "a renewal after a copy's give-back closes the window up to its end",
    ],
    wrap: (registry) => ({
      renew: async (request) =>
        registry.renew((await isOver(registry, request)) ? { ...request, receipt: undefined } : request),
    }),
  },
  {
    fault: "leaves the window open where a give-back shows that another claim had the same times",
    rejectedBy: [
      "where another claim of the same times was given back, a release closes the window up to what its holder used",
    ],
    wrap: (registry) => ({
      release: async (request) =>
        registry.release((await isOver(registry, request)) ? { ...request, receipt: undefined } : request),
    }),
  },
  {
    fault: "ends another claim at each late give-back",
    rejectedBy: [
      "where another claim of the same times was given back, a release closes the window up to what its holder used",
    ],
    wrap: (registry) => ({
      release: async (request) => {
        const { namespace, workerId } = request;
        const answer = await registry.release(request);
        if (answer.outcome === "lost") await registry.forceRelease({ namespace, workerId, force: true });
        return answer;
      },
    }),
  },
];

/** Mistakes because of which a registry does not notice that its store is an older copy, or that a holder is a copy. */
export const receiptFaults: readonly Fault[] = [
  ...turnFaults,
  ...proofFaults,
  ...eraFaults,
  ...copyFaults,
  ...doubledFaults,
];
