/** The daemon's log: pino, or any object whose methods take fields and a message. */
export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Says nothing. */
export const silent: Log = { info() {}, warn() {}, error() {} };
