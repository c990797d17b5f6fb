import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import { expect } from "vitest";

/** Secrets, and every text that others can read. */
export class Secrets {
  readonly #forms = new Map<string, string>();
  readonly #said: { readonly where: string; readonly text: string }[] = [];

  /** Notes each secret in every form in which it may get out. */
  constructor(secrets: readonly string[]) {
    for (const secret of secrets) this.add(secret);
  }

  add(secret: string): void {
    const base64 = (text: string): string => Buffer.from(text).toString("base64").replace(/=+$/, "");
    const forms = [secret, encodeURIComponent(secret), base64(secret), base64(`:${secret}`), base64(`user:${secret}`)];
    for (const form of [...forms, createHash("sha256").update(secret).digest("hex")]) this.#forms.set(form, secret);
  }

  note(where: string, text: string): void {
    this.#said.push({ where, text });
  }

  /** Notes what every user of this machine can read of a process. */
  noteProcess(pid: number): string {
    const text = ["cmdline", "comm", "status"].map((name) => readFileSync(`/proc/${pid}/${name}`, "latin1")).join("\n");
    this.note(`/proc/${pid}`, text);
    return text;
  }

  /** Notes an error as a program would log it, with all its causes. */
  noteError(where: string, error: unknown): void {
    this.note(
      where,
      inspect(error, { depth: Infinity, showHidden: true, maxStringLength: Infinity, maxArrayLength: Infinity }),
    );
    this.note(where, JSON.stringify(error));
  }

  /** Fails if any of these texts contains a secret. */
  expectKept(): void {
    const told = this.#said.flatMap(({ where, text }) => {
      const [form] = [...this.#forms.keys()].filter((form) => text.includes(form));
      if (form === undefined) return [];
      const at = text.indexOf(form);
      return [`${where}: …${text.slice(Math.max(0, at - 120), at + form.length + 40)}…`];
    });
    expect(told).toEqual([]);
    expect(this.#said.length).toBeGreaterThan(0);
  }
}
