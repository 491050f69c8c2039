// All tests of the page, in one process and one browser: `node --test-reporter=spec web/tests/all.js`.

import "./quick.js";
import "./schedules.test.js";
import "./studies.test.js";
import "./labels.test.js";
import "./jobs.test.js";
import "./timelines.test.js";
import "./encoder-failures.test.js";
import "./records.test.js";
import "./drag.test.js";
import "./share.test.js";
import "./history.test.js";
import "./colours.test.js";
import "./print.test.js";
import "./plan-page.test.js";
import "./files.test.js";
import "./hostile-links.test.js";
import "./markup.test.js";
import "./accessibility.test.js";
import "./keyboard.test.js";
