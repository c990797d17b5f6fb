const decoder = new TextDecoder("utf-8", { fatal: true });

/** Decodes UTF-8, without a byte order mark at its beginning; undefined for other bytes. (UTF-16 without a mark contains NULs.) */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    const text = decoder.decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Whether the bytes begin with a byte order mark of UTF-16. */
export function isUtf16([first, second]: Uint8Array): boolean {
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
}
