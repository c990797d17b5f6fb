import { driveStandIn, oracleStandIn, standInEnvironment } from "../support/oracle.ts";
import { restartMatrixOn } from "../support/restart-matrix.ts";
import { openSql } from "../support/sql.ts";
import { findServer } from "../support/store-server.ts";

const source = await findServer("oracle", oracleStandIn);
if (source.isOwn) driveStandIn();

restartMatrixOn("oracle", source, openSql, { environment: source.isOwn ? standInEnvironment : {} });
