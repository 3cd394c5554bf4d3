"""Rules for settings: single values, and keys that have to fit each other."""
