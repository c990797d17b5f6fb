/** Where the daemon tells what happens: pino, or anything that takes fields and a message. */
export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Says nothing. */
export const silent: Log = { info() {}, warn() {}, error() {} };
