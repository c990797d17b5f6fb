import fc from "fast-check";

// The gate draws the same values each time, so that it says the same of the same code. Other runs draw new ones.
const seed = process.env["PROPERTY_SEED"];
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) });

export { fc };
