"""Which pipeline-parallel schedule wins for a model, its memory and its links, and how much of the step
is bubble.

>>> import debubble as db
>>> q = db.Question(stages=8, microbatches=24, forward="29.718ms", backward_input="29.444ms",
...                 backward_weight="19.927ms", hop="527us", hidden=4096, heads=32, seq=1024)
>>> answers = db.simulate(q, ["1f1b", "zb-h1", "zb-2p", "zb-v"])
>>> [f"{one.schedule}: {one.bubble_rate:.2%}" for one in answers]
['1f1b: 23.47%', 'zb-h1: 13.23%', 'zb-2p: 0.29%', 'zb-v: 4.03%']

Everything that the command line `debubble` answers is a function here, but what runs on devices:
`debubble execute` and `debubble calibrate` stay with the command line.
"""

from ._advise import Advice, advise
from ._answers import Answers, Outcome, Why, simulate, simulate_all
from ._ask import Improvement, Progress
from ._debubble import __version__
from ._documents import (
    Comparison,
    Document,
    Encoded,
    Packed,
    Reinforced,
    Replayed,
    Reproduced,
    Rerouted,
    ScheduleList,
    Verified,
    compare,
    encoder,
    export,
    failures,
    fsdp,
    replay,
    reproduce,
    rl,
    schedules,
    schema,
    verify,
)
from ._errors import InputError, InternalError, Interrupted, LostRank, Note
from ._frames import Figures, Table
from ._lists import AnswerList, Failure
from ._plan import Against, Planned, plan, plan_all
from ._profile import Profile
from ._question import Question, Schedules, Steps, factors, steps
from ._schedule import BW, B, F, Pair, Pass, R, Schedule, W
from ._search import Certificate, Found, FoundOrder, search, search_all
from ._sweep import Sweep, sweep
from ._timeline import Timeline

__all__ = [
    "BW",
    "Advice",
    "Against",
    "AnswerList",
    "Answers",
    "B",
    "Certificate",
    "Comparison",
    "Document",
    "Encoded",
    "F",
    "Failure",
    "Figures",
    "Found",
    "FoundOrder",
    "Improvement",
    "InputError",
    "InternalError",
    "Interrupted",
    "LostRank",
    "Note",
    "Outcome",
    "Packed",
    "Pair",
    "Pass",
    "Planned",
    "Profile",
    "Progress",
    "Question",
    "R",
    "Reinforced",
    "Replayed",
    "Reproduced",
    "Rerouted",
    "Schedule",
    "ScheduleList",
    "Schedules",
    "Steps",
    "Sweep",
    "Table",
    "Timeline",
    "Verified",
    "W",
    "Why",
    "__version__",
    "advise",
    "compare",
    "encoder",
    "export",
    "factors",
    "failures",
    "fsdp",
    "plan",
    "plan_all",
    "replay",
    "reproduce",
    "rl",
    "schedules",
    "schema",
    "search",
    "search_all",
    "simulate",
    "simulate_all",
    "steps",
    "sweep",
    "verify",
]
