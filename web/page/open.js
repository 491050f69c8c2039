// The tab "open".

/** Makes the tab. */
export async function begin() {}
