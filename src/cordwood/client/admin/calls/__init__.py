"""The methods of `Admin`, by topic."""
