import BTreeModule from "sorted-btree";

// Published as CommonJS: in Node its class is the default export's default, a bundler or test runner may have unwrapped it.
export const BTree: typeof BTreeModule.default = "default" in BTreeModule ? BTreeModule.default : BTreeModule;
