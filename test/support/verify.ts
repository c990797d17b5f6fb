import { expect } from "vitest";
import { conformance } from "../../src/conformance.ts";
import type { VerifyReport } from "../../src/verify/verify.ts";
import type { Sandbox } from "./cli.ts";
import { CliShapes } from "./cli-shapes.ts";

export const minutes = 60_000;

/** The result of `snowlease verify`. */
interface Verified {
  readonly code: number;
  readonly report: VerifyReport;
}

/** Runs the command on a registry, and reads its report. */
export async function verify(
  sandbox: Sandbox,
  url: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Verified> {
  const { code, stdout, stderr } = await sandbox.run(["verify", url, "--yes", "--json", ...args], { env });
  expect([0, 1], stderr).toContain(code);
  const report = JSON.parse(stdout) as VerifyReport;
  new CliShapes().check("verify", report);
  return { code, report };
}

/** Checks that everything is well, and that each check of the contract was run or has a reason why not. */
export function expectWell({ code, report }: Verified): void {
  expect(report.failures).toEqual([]);
  expect(code).toBe(0);
  const { passed = 0, skipped = {} } = report.contract ?? {};
  expect(passed + Object.values(skipped).flat().length).toBe(conformance.length);
  expect(report.nemesis?.ids).toBeGreaterThan(0);
  expect(report.restarts?.ids).toBeGreaterThan(0);
  expect(report.removal.removed).toBeGreaterThan(200);
}
