import { readReceipt, receiptOf, type Receipt } from "../../rule/receipt.ts";
import { mostSentTurns, type Turns } from "../../rule/turn.ts";
import type { ScriptAnswer } from "./answers.ts";

/* What a holder sends so that its registry finds out that it forgot something, or that the holder was copied: receipts and turns. */

/** What a script takes, by name. */
type Arguments<Name extends string> = Readonly<Record<Name, string | number | undefined>>;

type ReceiptArgument = "receiptId" | "receiptEra" | "receiptRenewals" | "receiptUntil" | "receiptLimits";

/** A receipt as arguments of a script. */
export function receiptArguments(receipt: Receipt | undefined): Arguments<ReceiptArgument> {
  const { namespaceId, renewals, era, until, maxWindow, maxClockSkew } = receipt ?? {};
  return {
    receiptId: namespaceId,
    receiptEra: era,
    receiptRenewals: renewals,
    receiptUntil: until,
    receiptLimits: receipt && `${maxWindow} ${maxClockSkew}`,
  };
}

/** The receipt of the claim that a claimer remembers, as arguments of a script. */
export function recallArguments(
  text: string | undefined,
): Arguments<ReceiptArgument | "receiptWorkerId" | "receiptFence" | "receiptToken"> {
  const recall = readReceipt(text);
  return {
    ...receiptArguments(recall),
    receiptWorkerId: recall?.workerId,
    receiptFence: recall?.fence,
    receiptToken: recall?.token,
  };
}

/** The turns that the record of a holder may have, as an argument of a script. */
export function turnsArgument({ turn, nextTurn, sentTurns = [] }: Turns): string {
  return [turn, nextTurn, ...sentTurns.slice(0, mostSentTurns)].filter((each) => each !== undefined).join(" ");
}

/** The receipt in an answer without names, which has there: renewals id era maxWindow maxClockSkew. `claim`: with its stored token. */
export function receiptFrom(
  answer: ScriptAnswer,
  place: number,
  claim: { readonly workerId: number; readonly fence: number; readonly token: string; readonly until: number },
): string | undefined {
  const info = {
    id: answer.text(place + 1),
    maxWindow: answer.number(place + 3),
    maxClockSkew: answer.number(place + 4),
  };
  return receiptOf({ info, era: answer.text(place + 2) ?? "" }, { ...claim, renewals: answer.number(place) });
}
