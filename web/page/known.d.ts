// The module that the builder makes of results/records.

/** Who has found orders and bounds. */
export const FINDERS: string[];

/** A line for each pipeline: its name, and for each memory limit cost, bound and finders; the builder says in which form. */
export const KNOWN: string;

/** Checked cells of published tables by kind of evidence, as CSV without quotes. */
export const EVIDENCE: string;
