import { isSnowleaseError } from "../../src/id/errors.ts";
import { encodings } from "../../src/id/encodings.ts";
import { firstWholeTick, Layout, type ComposeParts } from "../../src/id/layout.ts";
import { presetNames } from "../../src/id/notation.ts";
import { blockVectors } from "./block-vectors.ts";
import { clockVectors } from "./clock-vectors.ts";

/** The format of the vectors. It rises if clients must read them differently. */
const version = 1;

/** The vectors for clients in other languages, by file of clients/vectors. */
export async function makeVectors(): Promise<Record<string, object>> {
  return {
    "layouts.json": layoutVectors(),
    "ids.json": idVectors(),
    "windows.json": windowVectors(),
    "clocks.json": { version, ...(await clockVectors()) },
    "blocks.json": { version, ...(await blockVectors()) },
  };
}

/** The error code with which a call fails. */
function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    if (isSnowleaseError(error)) return error.code;
    throw error;
  }
  throw new Error("Expected a refusal");
}

const goodLayouts = [
  ...presetNames,
  "timestamp:41,worker:10,sequence:12@1490346283706",
  "timestamp:41,worker:10,sequence:12@1490346283706/1",
  "timestamp:39,sequence:8,worker:16@0/10",
  "timestamp:21,sequence:1,worker:31@4102444800000/60000",
  "timestamp:45,worker:1,sequence:17@0",
  "timestamp:47,worker:4,sequence:12@1700000000000",
  "timestamp:42,worker:10,sequence:12@1490346283706",
  "timestamp:41,sequence:12@1700000000000",
  "timestamp:31,worker:1,sequence:31@1700000000000/1000",
  "timestamp:40,region:3,sequence:10,worker:10@1700000000000",
  "timestamp:38,a:1,b2345678901234x:2,rollback:8,sequence:3,c:4@1700000000000/7",
  "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps",
  "timestamp:41,worker:1,sequence:1@1700000000000/1/wraps",
];

const badLayouts: readonly (readonly [why: string, text: string])[] = [
  ["empty", ""],
  ["not a preset", "snowflake"],
  ["a preset in other case", "WestId"],
  ["no epoch", "timestamp:41,worker:10,sequence:12"],
  ["an empty epoch", "timestamp:41,worker:10,sequence:12@"],
  ["no fields", "@1700000000000"],
  ["65 bits", "timestamp:42,worker:10,sequence:13@1700000000000"],
  ["64 bits that wrap", "timestamp:41,worker:10,sequence:13@1700000000000/1/wraps"],
  ["the timestamp is not at the top", "worker:10,timestamp:41,sequence:12@1700000000000"],
  ["no timestamp", "worker:10,sequence:12@1700000000000"],
  ["no sequence", "timestamp:41,worker:10@1700000000000"],
  ["a name twice", "timestamp:41,worker:5,worker:5,sequence:12@1700000000000"],
  ["rollback is not directly above the sequence", "timestamp:41,rollback:2,worker:8,sequence:12@1700000000000"],
  ["20 bits of timestamp", "timestamp:20,worker:10,sequence:12@1700000000000"],
  ["48 bits of timestamp", "timestamp:48,worker:3,sequence:12@1700000000000"],
  ["49 bits of timestamp, of 64", "timestamp:49,worker:3,sequence:12@1700000000000"],
  ["9 bits of rollback", "timestamp:38,worker:4,rollback:9,sequence:12@1700000000000"],
  ["rollback and sequence have 32 bits", "timestamp:30,worker:1,rollback:1,sequence:31@1700000000000"],
  ["32 bits of sequence", "timestamp:30,worker:1,sequence:32@1700000000000"],
  ["32 bits of identity", "timestamp:30,a:16,b:16,sequence:1@1700000000000"],
  ["a field of 0 bits", "timestamp:41,worker:0,sequence:12@1700000000000"],
  ["an epoch after the year 2100", "timestamp:41,worker:10,sequence:12@4102444800001"],
  ["a tick of 0 ms", "timestamp:41,worker:10,sequence:12@1700000000000/0"],
  ["a tick of more than 60000 ms", "timestamp:31,worker:10,sequence:12@1700000000000/60001"],
  ["it ends after the last date", "timestamp:45,worker:5,sequence:12@1700000000000/60000"],
  ["leading zeros in bits", "timestamp:041,worker:10,sequence:12@1700000000000"],
  ["leading zeros in the epoch", "timestamp:41,worker:10,sequence:12@01700000000000"],
  ["leading zeros in the tick", "timestamp:41,worker:10,sequence:12@1700000000000/01"],
  ["a sign", "timestamp:41,worker:+10,sequence:12@1700000000000"],
  ["a negative epoch", "timestamp:41,worker:10,sequence:12@-1"],
  ["hexadecimal digits", "timestamp:0x29,worker:10,sequence:12@1700000000000"],
  ["an exponent", "timestamp:41,worker:10,sequence:12@17e11"],
  ["digits of another script", "timestamp:４１,worker:10,sequence:12@1700000000000"],
  ["an epoch of 17 digits", "timestamp:41,worker:10,sequence:12@17000000000000000"],
  ["an upper-case name", "timestamp:41,Worker:10,sequence:12@1700000000000"],
  ["a name that begins with a digit", "timestamp:41,1worker:10,sequence:12@1700000000000"],
  ["a name of 17 characters", "timestamp:41,abcdefghijklmnopq:10,sequence:12@1700000000000"],
  ["a name with a letter of another alphabet", "timestamp:41,wörker:10,sequence:12@1700000000000"],
  ["a space", "timestamp:41, worker:10,sequence:12@1700000000000"],
  ["a line feed behind it", "timestamp:41,worker:10,sequence:12@1700000000000\n"],
  ["a comma behind the fields", "timestamp:41,worker:10,sequence:12,@1700000000000"],
  ["a slash behind it", "timestamp:41,worker:10,sequence:12@1700000000000/"],
  ["an unknown suffix", "timestamp:41,worker:10,sequence:12@1700000000000/1/wrap"],
  ["an underscore in a number", "timestamp:41,worker:10,sequence:12@1_700_000_000_000"],
];

function layoutVectors(): object {
  return {
    version,
    about: "Texts of layouts, and what they mean, or the code with which they are refused.",
    layouts: goodLayouts.map((text) => {
      const layout = Layout.parse(text);
      return {
        text,
        canonical: layout.fingerprint,
        epoch: layout.epoch,
        tick: layout.tick,
        wraps: layout.wrap !== undefined,
        totalBits: layout.totalBits,
        fields: layout.fields.map(({ name, bits }) => ({ name, bits, shift: layout.shiftOf(name) })),
        workerBits: layout.workerBits,
        maxWorkerId: layout.pool.last,
        maxSequence: layout.maxSequence,
        maxRollback: layout.maxRollback,
        maxTick: layout.maxTick,
        endOfLife: layout.endOfLife,
      };
    }),
    refused: badLayouts.map(([why, text]) => ({ why, text, code: codeOf(() => Layout.parse(text)) })),
  };
}

/** An ID to make: any ms of its tick. */
interface Wanted {
  readonly layout: string;
  readonly parts: ComposeParts;
}

function wantedIds(): Wanted[] {
  return goodLayouts.flatMap((text) => {
    const layout = Layout.parse(text);
    const { epoch, tick, endOfLife, maxSequence, maxRollback, pool } = layout;
    const middle = epoch + Math.floor(Math.min(2 ** 40, (endOfLife - epoch) / 3));
    const all: ComposeParts[] = [
      { timestamp: epoch, workerId: 0, sequence: 0 },
      { timestamp: epoch, workerId: pool.last, sequence: 0 },
      { timestamp: epoch + tick, workerId: 0, sequence: maxSequence },
      // The last ms of a tick.
      { timestamp: layout.timeOf(layout.tickOf(middle) + 1) - 1, workerId: pool.last >> 1, sequence: maxSequence >> 1 },
      { timestamp: layout.timeOf(layout.tickOf(middle)), workerId: pool.last, sequence: maxSequence },
    ];
    if (layout.wrap === undefined) {
      all.push({ timestamp: endOfLife - 1, workerId: pool.last, sequence: maxSequence });
      all.push({ timestamp: endOfLife - tick, workerId: 0, sequence: 0 });
    }
    if (maxRollback > 0) {
      all.push({ timestamp: middle, workerId: 1, sequence: 1, rollback: 1 });
      all.push({ timestamp: middle, workerId: pool.last, sequence: maxSequence, rollback: maxRollback });
    }
    return all.map((parts) => ({ layout: text, parts }));
  });
}

const badIds: readonly (readonly [why: string, layout: string, parts: ComposeParts])[] = [
  ["before the epoch", "westid", { timestamp: 1490346283705, workerId: 0, sequence: 0 }],
  ["at the end of life", "westid", { timestamp: 3689369539258, workerId: 0, sequence: 0 }],
  ["the worker ID has too many bits", "westid", { timestamp: 1700000000000, workerId: 1024, sequence: 0 }],
  ["the worker ID is negative", "westid", { timestamp: 1700000000000, workerId: -1, sequence: 0 }],
  ["the sequence has too many bits", "westid", { timestamp: 1700000000000, workerId: 0, sequence: 4096 }],
  ["there is no rollback field", "westid", { timestamp: 1700000000000, workerId: 0, sequence: 0, rollback: 1 }],
];

const badTexts: readonly (readonly [why: string, encoding: keyof typeof encodings, text: string])[] = [
  ["empty", "decimal", ""],
  ["2^63", "decimal", "9223372036854775808"],
  ["a sign", "decimal", "-1"],
  ["a leading zero", "decimal", "01"],
  ["a space", "decimal", " 1"],
  ["a line feed behind it", "decimal", "1\n"],
  ["digits of another script", "decimal", "１"],
  ["20 digits", "decimal", "00000000000000000001"],
  ["upper case", "hex", "FF"],
  ["a prefix", "hex", "0xff"],
  ["2^63", "hex", "8000000000000000"],
  ["upper case", "base36", "ZZ"],
  ["a character of base64", "base62", "a-b"],
  ["2^63", "base62", "aZl8N0y58M8"],
  ["a look-alike", "crockford32", "O"],
  ["a look-alike", "crockford32", "IL"],
  ["lower case", "crockford32", "abc"],
  ["no padding", "base64url", "AAAAAAAAAAE"],
  ["characters of base64", "base64url", "+/AAAAAAAAA="],
  ["padding bits", "base64url", "AAAAAAAAAAF="],
  ["2^63", "base64url", "gAAAAAAAAAA="],
  ["too short", "base62sort", "1"],
  ["too short", "base64sort", "1"],
];

function idVectors(): object {
  const forms = Object.values(encodings);
  return {
    version,
    about:
      "Parts and the ID that they make; what the ID is taken apart to (`at`: only where the timestamp wraps); and its texts, the shortest ones and those that are as wide as the largest ID of the layout. Then parts and texts that are refused.",
    ids: wantedIds().map(({ layout: text, parts }) => {
      const layout = Layout.parse(text);
      const id = layout.compose(parts);
      const { timestamp, fields } = layout.decompose(id, parts.timestamp);
      return {
        layout: text,
        ...parts,
        id: id.toString(),
        decoded: { timestamp, fields, ...(layout.wrap !== undefined && { at: parts.timestamp }) },
        texts: Object.fromEntries(forms.map(({ name, encode }) => [name, encode(id)])),
        fixedTexts: Object.fromEntries(forms.map(({ name, encodeFixed }) => [name, encodeFixed(id, layout.totalBits)])),
      };
    }),
    refused: badIds.map(([why, text, parts]) => {
      const layout = Layout.parse(text);
      return { why, layout: text, ...parts, code: codeOf(() => layout.compose(parts)) };
    }),
    refusedTexts: badTexts.map(([why, encoding, text]) => {
      return { why, encoding, text, code: codeOf(() => encodings[encoding].decode(text)) };
    }),
  };
}

const epoch = 1_700_000_000_000;
const [ms, tenMs, second] = [1, 10, 1000].map((tick) => `timestamp:41,worker:10,sequence:2@${epoch}/${tick}`) as [
  string,
  string,
  string,
];
const short = `timestamp:21,worker:10,sequence:2@${epoch}/10`;

const windows: readonly (readonly [why: string, layout: string, from: number, until: number])[] = [
  ["ticks of 1 ms: all of it", ms, epoch + 5000, epoch + 65_000],
  ["one tick", ms, epoch + 5, epoch + 6],
  ["empty", ms, epoch + 5, epoch + 5],
  ["from the first tick on", ms, epoch, epoch + 1],
  ["from before the epoch", ms, epoch - 100, epoch + 100],
  ["ends before the epoch", ms, epoch - 100, epoch - 50],
  ["ends at the epoch", ms, epoch - 100, epoch],
  ["ticks of 10 ms: begin and end of the window are those of ticks", tenMs, epoch + 100, epoch + 200],
  ["begins inside a tick, which the holder before may have used", tenMs, epoch + 101, epoch + 200],
  ["begins at the last ms of a tick", tenMs, epoch + 109, epoch + 200],
  ["ends inside a tick, which the next holder may not use either", tenMs, epoch + 100, epoch + 209],
  ["begins and ends inside ticks", tenMs, epoch + 105, epoch + 195],
  ["lies inside one tick", tenMs, epoch + 101, epoch + 109],
  ["covers parts of two ticks", tenMs, epoch + 101, epoch + 119],
  ["from before the epoch, inside a tick", tenMs, epoch - 5, epoch + 25],
  ["ticks of 1 s", second, epoch + 1, epoch + 5999],
  ["reaches past the last tick of the layout", short, epoch + (2 ** 21 - 2) * 10, epoch + (2 ** 21 + 5) * 10],
  ["lies behind the last tick of the layout", short, epoch + 2 ** 21 * 10, epoch + (2 ** 21 + 5) * 10],
  ["westid, a minute", "westid", 1_700_000_000_000, 1_700_000_060_000],
  ["sonyflake, a minute that begins inside a tick", "sonyflake", 1_700_000_000_003, 1_700_000_060_003],
];

function windowVectors(): object {
  return {
    version,
    about:
      "Windows [from, until) and the first and the last tick whose IDs lie in them: a tick has to lie wholly in the window. Ticks count from the epoch of the layout; null: there is none.",
    windows: windows.map(([why, text, from, until]) => {
      const layout = Layout.parse(text);
      const first = firstWholeTick(layout, from);
      const last = Math.min(layout.maxTick, Math.floor((until - layout.epoch) / layout.tick) - 1);
      const isEmpty = last < first;
      return { why, layout: text, from, until, firstTick: isEmpty ? null : first, lastTick: isEmpty ? null : last };
    }),
  };
}
