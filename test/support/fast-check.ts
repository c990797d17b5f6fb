import fc from "fast-check";

// The gate draws the same values each time, so that the same code gives the same result. Other runs draw new values.
const seed = process.env["PROPERTY_SEED"];
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) });

export { fc };
