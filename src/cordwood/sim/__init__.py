"""The simulated world: one seed decides what happens in it. docs/simulation.md tells how it is made."""
