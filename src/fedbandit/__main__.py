"""``python -m fedbandit``: the same as the command ``fedbandit``."""

import sys

from fedbandit.cli import main

sys.exit(main())
