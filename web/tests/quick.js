// The tests of the page for every change: `all.js` has those that take longest, too.

import "./load.test.js";
import "./examples.test.js";
import "./play.test.js";
import "./answer.test.js";
import "./links.test.js";
import "./search.test.js";
import "./plan.test.js";
