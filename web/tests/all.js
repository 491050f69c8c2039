// All tests of the page, in one process and one browser: `node --test-reporter=spec web/tests/all.js`.

import "./load.test.js";
