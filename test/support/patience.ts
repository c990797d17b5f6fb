/** How long what is asked for may take where a test is not about that, ms: a busy machine is no fault of what is tested. */
export const patience = 600_000;
