// Restart tests of a service's own: the bug of a naive generator is found, first by hand, then by the whole matrix; Snowlease's IDs pass.
//
//   npx tsx examples/restarts/find.ts
import assert from "node:assert/strict";
import {
  type CaseReport,
  expectNoDuplicates,
  type Holder,
  type HolderOptions,
  type IdSource,
  type LifeReport,
  type MadeId,
  restartMatrix,
  type RestartMatrixOptions,
  type RestartReport,
  startHolder,
} from "snowlease/testing";

// In its own process, a generator never goes back; what it returns is one of these.
const naive: HolderOptions = { module: new URL("ids.mjs", import.meta.url) };
const source: IdSource = { next: (): MadeId => 1n };
expectNoDuplicates([await source.next(), 2n]);

// Step by step: killed with -9, and started again with the clock where it was.
const first: Holder = await startHolder(naive);
const { began, made }: LifeReport = await first.live(300);
await first.kill();
const second = await startHolder({ ...naive, clock: began });
await second.live(300);
await second.close();
assert.equal(first.ids.length, made);
assert.throws(
  () => expectNoDuplicates([...first.ids, ...second.ids]),
  /were made more than once; the first one is \d+/,
);

// All at once.
await assert.rejects(restartMatrix(naive), (error: Error) => {
  console.log(error.message);
  return error.message.startsWith("5 of 6 cases of the restart matrix failed.\n- stopped in the usual way, ");
});

// The same with worker IDs that are leased.
const leased: RestartMatrixOptions = {
  registry: process.env["SNOWLEASE_REGISTRY"] ?? "sqlite:./restarts.db",
};
const report: RestartReport = await restartMatrix(leased);
const line = ({ title, made, refusals }: CaseReport): string =>
  `${title}: ${made.join(" + ")} IDs, refused: ${JSON.stringify(refusals)}`;
console.log(report.cases.map(line).join("\n"));
console.log(`${report.ids} IDs, all different`);
