// The tab "plan".

/** Makes the tab. */
export async function begin() {}
