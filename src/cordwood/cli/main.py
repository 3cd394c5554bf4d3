"""Entry point of the `cordwood` command."""

import logging
import os
import sys

from cordwood.cli.terminal.standard_streams import standard_streams

# Set by the shell's completion script.
_COMPLETION = "_CORDWOOD_COMPLETE"
_EXIT_FAILED = 1
_EXIT_INTERRUPTED = 130

# Packages of the extra `registry`, as modules are named.
_REGISTRY_PACKAGES = ("fastavro", "google", "jsonschema_rs")


def main() -> None:
    try:
        with standard_streams():
            _run()
    except KeyboardInterrupt:
        # Ctrl-C during imports.
        sys.exit(_EXIT_INTERRUPTED)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _REGISTRY_PACKAGES:
            raise
        print(
            f"cordwood: this needs {error.name}, which is not installed: pip install 'cordwood[registry]'",
            file=sys.stderr,
        )
        sys.exit(_EXIT_FAILED)


def _run() -> None:
    if sys.argv[1:2] != ["up"]:
        # Show warnings of the client library in the command's own format.
        logging.basicConfig(format="cordwood: %(message)s")
    if _COMPLETION not in os.environ:
        # Without typer, whose import alone takes a tenth of a node's start.
        _run_quickly(sys.argv[1:2], sys.argv[2:])
    from cordwood.cli.commands import app

    app(prog_name="cordwood")


def _run_quickly(command: list[str], words: list[str]) -> None:
    """Runs the command and exits if it doesn't need typer."""
    if command == ["up"]:
        from cordwood.cli.framework.quick import quick_arguments
        from cordwood.cli.node.foreground import SPELLING, NodeOptions, run_node

        arguments = quick_arguments(NodeOptions, words, SPELLING)
        if arguments is not None:
            sys.exit(run_node(NodeOptions(**arguments)))
    elif command == ["produce"]:
        from cordwood.cli.connection.access import run_quickly
        from cordwood.cli.records import producing

        run_quickly(producing.produce_lines, producing.ProduceOptions, words, producing.SPELLING)
    elif command == ["consume"]:
        from cordwood.cli.connection.access import run_quickly
        from cordwood.cli.records import consuming

        run_quickly(consuming.consume_records, consuming.ConsumeOptions, words, consuming.SPELLING)
