// Numbers of answers in words, as the library writes them.

/** A share in percent. */
export const percent = (share) => `${(100 * share).toFixed(2)} %`;

/** How many times as fast, and slower as a number below one. */
export const times = (ratio) => `${ratio.toFixed(2)}x`;

/** A size without the zeros behind its point. */
export const short = (size) => size.replace(/\.00 /, " ");
