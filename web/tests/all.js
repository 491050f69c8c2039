// All tests of the page, in one process and one browser: `node --test-reporter=spec web/tests/all.js`.

import "./load.test.js";
import "./examples.test.js";
import "./drag.test.js";
import "./play.test.js";
import "./answer.test.js";
import "./jobs.test.js";
import "./share.test.js";
import "./history.test.js";
import "./colours.test.js";
import "./print.test.js";
import "./timelines.test.js";
import "./links.test.js";
import "./search.test.js";
import "./plan.test.js";
import "./files.test.js";
import "./hostile-links.test.js";
import "./markup.test.js";
import "./accessibility.test.js";
import "./keyboard.test.js";
