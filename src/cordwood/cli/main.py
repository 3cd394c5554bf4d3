"""The `cordwood` command: where it begins."""

import logging
import os
import sys

from cordwood.cli.standard_streams import standard_streams

# Set where a shell asks what a command could go on with.
_COMPLETION = "_CORDWOOD_COMPLETE"
_EXIT_INTERRUPTED = 130


def main() -> None:
    try:
        with standard_streams():
            _run()
    except KeyboardInterrupt:
        # Ctrl-C while modules were still being imported.
        sys.exit(_EXIT_INTERRUPTED)


def _run() -> None:
    if sys.argv[1:2] == ["up"] and _COMPLETION not in os.environ:
        # Without typer, whose import alone would be a tenth of a node's start.
        from cordwood.cli.foreground import NodeOptions, run_node
        from cordwood.cli.quick import quick_arguments

        arguments = quick_arguments(NodeOptions, sys.argv[2:])
        if arguments is not None:
            sys.exit(run_node(NodeOptions(**arguments)))
    from cordwood.cli.commands import app

    if sys.argv[1:2] != ["up"]:
        # Warnings of the client library look as those of the command.
        logging.basicConfig(format="cordwood: %(message)s")
    app(prog_name="cordwood")
