"""Administration: plain functions over a `Client`, one module per kind of resource."""
