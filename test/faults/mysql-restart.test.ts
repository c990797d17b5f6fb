import { mariadbProgram, mysqlProgram } from "../support/databases.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { findServer } from "../support/store-server.ts";

restartMatrixOn("mariadb", await findServer("mariadb", mariadbProgram), openSql);
restartMatrixOn("mysql", await findServer("mysql", mysqlProgram), openSql);
