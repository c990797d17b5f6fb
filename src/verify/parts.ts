/** The parts of a verification, in their order. */
export const verifyParts: readonly ["contract", "restarts", "nemesis"] = ["contract", "restarts", "nemesis"];

/** The name of a part. */
export type VerifyPart = (typeof verifyParts)[number];
