// A static server that knows one page, under a path, as a page among others would lie.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";

import { BUILT } from "./browser.js";

const PATH = "/some/where/";

async function start() {
  /** The paths that were asked for. @type {string[]} */
  const asked = [];
  const listening = createServer((request, response) => {
    asked.push(request.url ?? "");
    if (request.url !== PATH) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/html" }).end(readFileSync(BUILT));
  });
  await new Promise((resolve) => listening.listen(0, "127.0.0.1", () => resolve(null)));
  const at = /** @type {import("node:net").AddressInfo} */ (listening.address());
  const end = () => new Promise((resolve) => {
    listening.closeAllConnections();
    listening.close(resolve);
  });
  return { address: `http://127.0.0.1:${at.port}${PATH}`, asked, end };
}

/** @type {ReturnType<typeof start> | null} */
let started = null;

/** The server, which is started when it is asked for. */
export function server() {
  started ??= start();
  return started;
}
