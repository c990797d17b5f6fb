/** The variable of a holder's environment with its options and its file, as JSON. */
export const setupVariable = "PROOF_HOLDER";

/** What a holder tells of itself. Times are Unix ms. */
export interface HolderState {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  readonly state: string;
  /** Its wall clock. */
  readonly now: number;
  /** How many claims and renewals of it were answered or have failed. */
  readonly calls: number;
  readonly events: readonly HolderEvent[];
  /** Error code -> how often `next` threw it. */
  readonly failures: Readonly<Record<string, number>>;
  readonly error?:
    | { readonly code: string; readonly message: string; readonly retryAfterMs?: number | undefined }
    | undefined;
}

/** An event of a holder's lease. */
export interface HolderEvent {
  readonly name: string;
  readonly at: number;
  readonly code?: string | undefined;
  readonly workerId?: number;
  readonly continued?: boolean;
  readonly rollback?: number;
  readonly by?: number;
  readonly action?: string;
  readonly reason?: string;
  readonly doubt?: { readonly from: number; readonly until: number };
}

/** A window as a holder knew it when it made IDs. */
export interface NotedWindow {
  readonly workerId: number;
  readonly fence: number;
  readonly from: number;
  readonly until: number;
  /** It may use times from here on: those before `from` are behind what it continues. */
  readonly knownFrom: number;
}
