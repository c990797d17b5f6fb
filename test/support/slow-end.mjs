// A program whose end takes 1.5 s, and which makes no ID during that time. Its IDs are random.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export default async function start() {
  let isOpen = true;
  return {
    next() {
      if (!isOpen) throw Object.assign(new Error("It ends."), { code: "ENDS" });
      return randomBytes(8).readBigUInt64BE();
    },
    async close() {
      if (!isOpen) return;
      isOpen = false;
      await sleep(1500);
    },
  };
}
