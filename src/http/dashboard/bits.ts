import { html } from "../../vendor/hono.ts";
import type { Layout } from "../../id/layout.ts";
import { tight } from "./room.ts";
import type { Html } from "./text.ts";

/** A field of an ID, and its bits from the top down. */
interface FieldBits {
  readonly name: string;
  readonly bits: string;
  readonly look: string;
}

/** Looks of the identity fields, in turn. */
const identityLooks = 3;
const height = 24;

/** An ID as its bits: each field in proportion, in a colour of its own, and named below with its value. */
export function bitsPart(id: bigint, layout: Layout): Html {
  const fields = fieldsOf(id, layout);
  const label = fields.map(({ name, bits }) => `${name} ${bits.length} bits`).join(", ");
  let at = 0;
  const bars = fields.map(({ bits, look }) => {
    const first = at;
    at += bits.length;
    const set = Array.from(bits, (bit, i) => (bit === "1" ? `M${first + i + 0.1} 2h.8v${height - 4}h-.8z` : "")).join(
      "",
    );
    return html`<rect class="${look}" x="${first}" y="0" width="${bits.length}" height="${height}" /><path
        class="${look}"
        d="${set}"
      />`;
  });
  return tight(
    html`<div class="bits">
      <svg viewBox="0 0 ${at} ${height}" preserveAspectRatio="none" role="img" aria-label="${at} bits: ${label}">
        ${bars}
      </svg>
      <ul>
        ${fields.map(
          ({ name, bits, look }) =>
            html`<li>
              <i class="swatch ${look}" aria-hidden="true"></i>
              <span><b>${name}</b>, ${bits.length} bits: ${String(BigInt(`0b${bits}`))}</span>
            </li>`,
        )}
      </ul>
    </div>`,
  );
}

function fieldsOf(id: bigint, { fields, totalBits }: Layout): readonly FieldBits[] {
  const all = id.toString(2).padStart(totalBits, "0");
  let at = 0;
  let identity = 0;
  return fields.map(({ name, bits }) => {
    const own = ["timestamp", "sequence", "rollback"].includes(name);
    const look = own ? `field-${name}` : `field-${identity++ % identityLooks}`;
    at += bits;
    return { name, bits: all.slice(at - bits, at), look };
  });
}
