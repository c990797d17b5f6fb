// The input of `wall-clock.c`, in the form of its `struct setting`.
import { closeSync, openSync, readSync, writeSync } from "node:fs";

const size = 40;
/** ms in a second, and ns in a ms. */
const [thousand, million] = [1000, 1_000_000n];

export function setWallClock(path, offset, rate = 1) {
  const file = openSync(path, "r+");
  const setting = Buffer.alloc(size);
  readSync(file, setting, 0, size, 0);
  const change = setting.readBigUInt64LE(0) + 1n;
  setting.writeBigUInt64LE(change, 0);
  setting.writeBigInt64LE(BigInt(Math.round(offset * thousand)) * million, 8);
  setting.writeBigInt64LE(BigInt(Date.now()) * million, 16);
  setting.writeDoubleLE(rate, 24);
  setting.writeBigUInt64LE(change, 32);
  writeSync(file, setting, 0, size, 0);
  closeSync(file);
}
