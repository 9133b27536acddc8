"""`python -m ovor` is the command line too."""

from ovor.cli import main

main()
