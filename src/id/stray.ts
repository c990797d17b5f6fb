/**
 * The place of a value, for a refusal that says to correct it. It names what people do not see in their own files: an empty text, quotes that
 * only a shell removes, a blank or the end of a line behind the value.
 */
export function withStray(place: string, value: unknown): string {
  if (typeof value !== "string") return place;
  if (value === "") return `${place}: it is empty, so give it a value or leave it out`;
  if (/^(["']).*\1$/s.test(value.trim())) return `${place}: the quotes are a part of its value, so leave them out`;
  if (/[\r\n]$/.test(value)) return `${place}: its value ends with a line break, so leave that out`;
  return value === value.trim() ? place : `${place}: a blank stands around its value, so leave that out`;
}
