"""The broker's side of the controller: how it asks, registers, and reports changes."""
