"""``python -m gpuopt``: see `gpuopt.cli.main`."""

import sys

from gpuopt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
