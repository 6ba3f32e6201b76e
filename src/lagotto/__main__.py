"""`python -m lagotto` is `lagotto`."""

import sys

from lagotto.cli import main

if __name__ == "__main__":
    sys.exit(main())
