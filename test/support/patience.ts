/** How long a call may take in a test that is not about that, ms. A busy machine is no fault of the tested code. */
export const patience = 600_000;
