import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const subjectPath = fileURLToPath(new URL("subject.mjs", import.meta.url));

/**
 * Measures cases side by side: each in a process of its own, so that no two share compiled code or inline caches, and all of
 * them taking turns, so that a busy moment of the machine hits them alike. Then everything again in fresh processes.
 *
 * @param module URL of the module whose `groups[group].cases` has the cases.
 * @returns for each case the answers of all its rounds, those of one round at the same index, and what its `check` said.
 */
export async function interleave(module, group, names, { processes = 3, rounds = 30 } = {}) {
  const results = new Map(names.map((name) => [name, { rounds: [], check: undefined }]));
  for (let set = 0; set < processes; set++) {
    const subjects = await Promise.all(names.map((name) => Subject.start(module, group, name)));
    try {
      await Promise.all(subjects.map((subject) => subject.ask("warm")));
      for (let round = 0; round < rounds; round++) {
        for (const subject of subjects) results.get(subject.name).rounds.push(await subject.ask("round"));
      }
      for (const subject of subjects) results.get(subject.name).check = await subject.ask("check");
      for (const subject of subjects) await subject.ask("close");
    } finally {
      for (const subject of subjects) subject.end();
    }
  }
  return results;
}

/** One case in its own process. */
class Subject {
  #child;
  #exit;

  static async start(module, group, name) {
    const subject = new Subject(module, group, name);
    await subject.ask("make");
    return subject;
  }

  constructor(module, group, name) {
    this.name = name;
    this.#child = fork(subjectPath, [module, group, name]);
    this.#exit = new Promise((_, reject) => {
      this.#child.once("exit", (code) => reject(new Error(`The process of \`${name}\` ended (${code}).`)));
    });
    this.#exit.catch(() => undefined);
  }

  ask(what) {
    const answered = new Promise((resolve) => this.#child.once("message", resolve));
    this.#child.send(what);
    return Promise.race([answered, this.#exit]);
  }

  end() {
    if (this.#child.connected) this.#child.disconnect();
  }
}
