/** Whether this machine puts the lower half of a 64-bit number first. */
export const littleEndian: boolean = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

/** Index of each half of a 64-bit number in a Uint32Array over it. */
export const lowerWord: number = littleEndian ? 0 : 1;
export const upperWord: number = 1 - lowerWord;
