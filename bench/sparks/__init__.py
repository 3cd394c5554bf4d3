"""The parts of `python -m bench spark`."""
