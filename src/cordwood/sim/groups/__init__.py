"""Members of groups, of both protocols, and what they ask a coordinator for."""
