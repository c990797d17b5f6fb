// `node --import …/instead.mjs` takes driver.mjs for the package oracledb.
import { register } from "node:module";

const file = JSON.stringify(new URL("driver.mjs", import.meta.url).href);
const driver = JSON.stringify(`data:text/javascript,export { driver as default } from ${encodeURIComponent(file)};`);
const hook = `export const resolve = (name, context, next) =>
  name === "oracledb" ? { url: ${driver}, shortCircuit: true } : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
