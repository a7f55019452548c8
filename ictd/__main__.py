"""``python -m ictd`` is the command ``ictd``."""

import sys

from ictd.cli import main

sys.exit(main())
