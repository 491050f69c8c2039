// The tab "search".

/** Makes the tab. */
export async function begin() {}
