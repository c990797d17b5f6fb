const decoder = new TextDecoder("utf-8", { fatal: true });

/** A text in UTF-8, without a byte order mark at its beginning; undefined where the bytes are none. (UTF-16 without a mark has NULs.) */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    const text = decoder.decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Whether bytes begin as a text in UTF-16 does that has a byte order mark. */
export function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
}
