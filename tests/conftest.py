"""How property tests search: new examples at a desk, the same ones in CI."""

import os
from importlib.util import find_spec

from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# What `make test` installs has no driver of browsers; `make test-browser` brings it.
collect_ignore = [] if find_spec("playwright") else ["browser"]
