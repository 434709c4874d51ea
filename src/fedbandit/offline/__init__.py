"""What would have happened: policies judged by logs of what another one did.

``evaluate`` is ``fb.evaluate``. Needs numpy; figures and tables are drawn elsewhere.
"""

from fedbandit.offline.estimates import Estimate
from fedbandit.offline.evaluating import evaluate
from fedbandit.offline.outcome import Evaluation, Outcome
from fedbandit.offline.policies import Policy, always, uniform

__all__ = ["Estimate", "Evaluation", "Outcome", "Policy", "always", "evaluate", "uniform"]
