"""`python -m cordwood` is the `cordwood` command."""

from cordwood.cli.main import main

main()
