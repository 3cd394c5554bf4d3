"""The simulated world: one seed determines everything in it. See docs/simulation.md."""
