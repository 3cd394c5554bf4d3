"""The methods of `Admin`, by what they are about."""
