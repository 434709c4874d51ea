"""How property tests search: new examples at a desk, the same ones in CI."""

import os
from importlib.util import find_spec

from hypothesis import HealthCheck, settings

# The run without a compiler is a second one over the same laws: fewer examples do there.
EXAMPLES = 30 if os.environ.get("FEDBANDIT_COMPILE") == "0" else 100
settings.register_profile(
    "desk",
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no defect
)
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# What `make test` installs has no driver of browsers; `make test-browser` brings it.
collect_ignore = [] if find_spec("playwright") else ["browser"]
