"""`python -m windsprite_server` is the command line `windsprite-server`."""

import sys

from windsprite_server.cli import main

sys.exit(main())
