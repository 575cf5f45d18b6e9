"""`python -m windsprite.cli` is the command line `windsprite`."""

import sys

from windsprite.cli import main

sys.exit(main())
