"""Input and output of commands: streams, tables, questions and progress."""
