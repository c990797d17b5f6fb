import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { commands } from "../../src/cli/commands.ts";
import { Sandbox } from "../support/cli.ts";
import { isProgram, whyMissing } from "../support/servers.ts";

let sandbox: Sandbox;
beforeEach(() => {
  sandbox = new Sandbox();
});

const names = Object.keys(commands);

/** What a shell prints that runs a script, in the folder of the sandbox. */
function run(shell: string, ...args: readonly string[]): string {
  const { stdout, stderr, status } = spawnSync(shell, args, { cwd: sandbox.work, encoding: "utf8", timeout: 30_000 });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return stdout;
}

async function script(shell: string, name: string): Promise<void> {
  writeFileSync(join(sandbox.work, name), await sandbox.read(["completion", shell]));
}

test("bash completes commands, their flags, and the commands behind help", async () => {
  await script("bash", "completion");
  const complete = (...words: readonly string[]): string[] => {
    const line = words.map((word) => `'${word}'`).join(" ");
    const asked = `COMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _snowlease; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return run("bash", "-c", `source ./completion; ${asked}`).split("\n").filter(Boolean);
  };
  expect(complete("snowlease", "")).toEqual([...names, "help"]);
  expect(complete("snowlease", "ex")).toEqual(["exec", "explain"]);
  expect(complete("snowlease", "help", "ex")).toEqual(["exec", "explain"]);
  expect(complete("snowlease", "exec", "--na")).toEqual(["--namespace"]);
  expect(complete("snowlease", "release", "7", "--")).toEqual(
    expect.arrayContaining(["--force", "--i-know", "--json"]),
  );
  // A name of a file, which bash completes by itself.
  expect(complete("snowlease", "audit", "id")).toEqual([]);
  expect(complete("snowlease", "nothing", "--x")).toEqual([]);
});

const fishMissing = whyMissing("fish", () => isProgram("fish"), "fish");
describe.skipIf(fishMissing !== undefined)(fishMissing ?? "fish", () => {
  test("completes commands and their flags", async () => {
    await script("fish", "completion");
    const complete = (line: string): string[] =>
      run("fish", "--no-config", "-c", `source ./completion; complete -C "snowlease ${line}"`)
        .split("\n")
        .map((word) => word.replace(/\t.*/, ""))
        .filter(Boolean);
    expect(complete("ex").toSorted()).toEqual(["exec", "explain"]);
    expect(complete("exec --na")).toEqual(["--namespace"]);
    expect(complete("").toSorted()).toEqual(names.toSorted());
  });
});

const zshMissing = whyMissing("zsh", () => isProgram("zsh"), "zsh");
describe.skipIf(zshMissing !== undefined)(zshMissing ?? "zsh", () => {
  test("completes commands and their flags at a terminal", async () => {
    await script("zsh", "_snowlease");
    // A terminal of its own, in which keys are pressed; each answer is waited for.
    const session = `
zmodload zsh/zpty
zpty z zsh -f -i
wait_for() { local all line; repeat 200; do while zpty -r -t z line; do all+=$line; done; [[ $all == *$1* ]] && return; sleep 0.05; done; print -r -- "no $1 in: $all"; exit 1 }
zpty -w z 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print is-$((40+2))'
wait_for is-42
zpty -n -w z $'snowlease exe\\t'
wait_for exec
zpty -n -w z $'--na\\t'
wait_for --namespace
zpty -d z
print done`;
    expect(run("zsh", "-f", "-c", session)).toBe("done\n");
  });
});

test.each([
  [[], /expected SHELL, got nothing/],
  [["tcsh"], /Expected SHELL to be one of bash, zsh, fish, got `tcsh` \(string\); name one of them\./],
  [["bash", "zsh"], /`zsh`/],
])("%j is refused", async (args, message) => {
  const { code, stdout, stderr } = await sandbox.run(["completion", ...args]);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(message);
});
