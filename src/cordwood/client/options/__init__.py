"""Settings as applications give them: names, values, checks, and keywords for type checkers."""
