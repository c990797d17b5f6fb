import { postgresProgram } from "../support/databases.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { findServer } from "../support/store-server.ts";

restartMatrixOn("postgres", await findServer("postgres", postgresProgram), openSql);
