import { describe, expect, test } from "vitest";
import { go, goClient, hasGo } from "../support/go/go.ts";

describe.skipIf(!hasGo())("the Go client", () => {
  test("makes IDs as the vectors say", () => {
    // Without the network's packages, which take long to compile.
    const files = ["layout.go", "encoding.go", "errors.go", "window.go", "blocks.go", "vectors_test.go"];
    const said = go(goClient, "test", "-vet=off", "-count=1", "-v", ...files);
    expect(said).toMatch(/^--- PASS: TestClockVectors/m);
    expect(said).toMatch(/^--- PASS: TestBlockVectors/m);
    expect(said).not.toMatch(/--- SKIP: TestClockVectors\s/);
  });
});
