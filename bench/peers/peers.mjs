import { Snowflake } from "@sapphire/snowflake";
import FlakeId from "flake-idgen";
import hyperid from "hyperid";
import { nanoid } from "nanoid";
import { Snowflake as NodejsSnowflake } from "nodejs-snowflake";
import simpleflakes from "simpleflakes";
import { Generator } from "snowflake-generator";
import SnowflakeId from "snowflake-id";
import { Worker } from "snowflake-uuid";
import Snowflakify from "snowflakify";
import { Snowyflake } from "snowyflake";
import { getTsid } from "tsid-ts";
import { monotonicFactory } from "ulid";
import { v7 } from "uuid";

const epoch = 1_490_346_283_706;

export const sapphire = () => new Snowflake(BigInt(epoch));

/**
 * Who makes IDs like ours, or in their place: `make()` answers a function that makes one, `text` turns one into text. Each as its
 * README says, with an epoch of the same time where one may be told.
 */
export const peers = {
  "@sapphire/snowflake": {
    make() {
      const generator = sapphire();
      return () => generator.generate();
    },
    text: String,
  },
  "nodejs-snowflake": {
    make() {
      const generator = new NodejsSnowflake({ custom_epoch: epoch, instance_id: 7 });
      return () => generator.getUniqueID();
    },
    text: String,
  },
  "flake-idgen": {
    make() {
      const generator = new FlakeId({ epoch, id: 7 });
      return () => generator.next();
    },
    text: (id) => String(id.readBigUInt64BE()),
  },
  "snowflake-id": {
    make() {
      const generator = new SnowflakeId.default({ mid: 7, offset: epoch });
      return () => generator.generate();
    },
    text: String,
  },
  snowflakify: {
    make() {
      const generator = new Snowflakify({ epoch });
      return () => generator.nextId();
    },
    text: String,
  },
  "snowflake-uuid": {
    make() {
      const generator = new Worker(7, 1, { epoch });
      return () => generator.nextId();
    },
    text: String,
  },
  snowyflake: {
    make() {
      const generator = new Snowyflake({ workerId: 7n, epoch: BigInt(epoch) });
      return () => generator.nextId();
    },
    text: String,
  },
  "tsid-ts": { make: () => () => getTsid().toBigInt(), text: String },
  simpleflakes: { make: () => () => simpleflakes.simpleflake(), text: String },
  "snowflake-generator": {
    make() {
      const generator = new Generator(epoch, 7);
      return () => generator.generate();
    },
    text: String,
  },
  "uuid v7": { make: () => () => v7(), text: String },
  "ulid, monotonic": { make: () => monotonicFactory(), text: String },
  nanoid: { make: () => () => nanoid(), text: String },
  hyperid: { make: () => hyperid(), text: String },
};
