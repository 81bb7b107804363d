"""`python -m awm`: the command line, where the script `awm` is not on the path."""

from __future__ import annotations

from awm.cli.main import main

if __name__ == "__main__":
    main()
