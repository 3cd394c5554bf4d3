"""Members of groups, of both protocols, and their requests to coordinators."""
