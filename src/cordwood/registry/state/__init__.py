"""The registry's state and its decisions, sans-IO: a decision is a function of the state and returns records for
`_schemas`; replaying those, in their order, is the only way into the state."""
