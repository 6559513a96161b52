"""The search for counterexamples: by Hypothesis, and then by Nelder-Mead from the best cases.

A counterexample is shrunk and confirmed. `attack` searches. `stored_counterexample` makes a counterexample of a form's
stored case. `written` and `read` keep a counterexample in a file, and `rejudge` judges the case of such a file again.
`attack_held` searches against forms that held on the cases of `verify`.
"""

from verification.search.after_cases import attack_held
from verification.search.hunt import Attack, Counterexample, attack
from verification.search.replay_file import Rejudged, Replay, read, rejudge, stored_counterexample, written

__all__ = [
    "Attack",
    "Counterexample",
    "Rejudged",
    "Replay",
    "attack",
    "attack_held",
    "read",
    "rejudge",
    "stored_counterexample",
    "written",
]
