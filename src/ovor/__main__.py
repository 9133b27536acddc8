"""The command line, also as `python -m ovor`."""

import sys


def main() -> None:
    try:
        from ovor.cli import main as chosen  # takes a moment, in which Ctrl-C may come
    except KeyboardInterrupt:
        sys.exit(130)
    chosen()


if __name__ == "__main__":
    main()
