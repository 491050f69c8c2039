// The module that the builder makes of the book's glossary.

/** Terms, and what they mean. */
export const GLOSSARY: Record<string, string>;
