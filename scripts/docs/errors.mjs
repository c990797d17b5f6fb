import { exitCodes } from "../../dist/cli/exit-codes.js";
import { errorCodes, SnowleaseError } from "../../dist/id/errors.js";
import { heldForGood, statusOf } from "../../dist/api/problem.js";
import { fail } from "../setup.mjs";
import { cells, table } from "./table.mjs";

/**
 * Every code, with what the page says of it. Meaning and advice are written by hand in the page. The code adds the other columns.
 * @param written the present part of the page.
 */
export function errors(written) {
  const said = new Map(written.split("\n").map((line) => [cells(line)[0], cells(line).slice(-2)]));
  const rows = errorCodes.map((code) => {
    const [meaning, advice] = said.get(`\`${code}\``) ?? [];
    if (!meaning || !advice) fail(`docs/errors.md has no row of ${code}: write its meaning and advice`);
    const again = new SnowleaseError(code, "").retryable ? "yes" : "";
    const status = code === "WORKER_ID_HELD" ? `${statusOf[code]}, ${heldForGood}` : statusOf[code];
    return [`\`${code}\``, exitCodes[code], status, again, meaning, advice];
  });
  return table([["code", "exit", "status", "retryable", "meaning", "what to do"], ...rows]);
}
