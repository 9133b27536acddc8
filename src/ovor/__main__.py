"""The command line, also as `python -m ovor`."""

import signal
import sys

# In a process that multiprocessing starts, this is loaded before torch is: Ctrl-C then ends it
# without a word, and leaves it to its parent to speak.
process = sys.modules.get("multiprocessing.process")
if process and process.current_process().name != "MainProcess":
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    try:
        from ovor.cli import main as chosen  # takes a moment, in which Ctrl-C may come
    except KeyboardInterrupt:
        sys.exit(130)
    chosen()


if __name__ == "__main__":
    main()
