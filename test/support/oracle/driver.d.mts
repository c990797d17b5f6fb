import type oracledb from "oracledb";

/** The part of the driver that its dialect uses. */
export declare const driver: Pick<
  typeof oracledb,
  "BUFFER" | "DB_TYPE_BLOB" | "DB_TYPE_NUMBER" | "NUMBER" | "OUT_FORMAT_ARRAY" | "STRING" | "getConnection"
>;
