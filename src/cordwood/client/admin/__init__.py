"""Administration: plain functions over a `Client`, one module for each thing that is administered."""
