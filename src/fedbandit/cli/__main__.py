"""``python -m fedbandit.cli``: the same as ``fedbandit``."""

import sys

from fedbandit.cli import main

sys.exit(main())
