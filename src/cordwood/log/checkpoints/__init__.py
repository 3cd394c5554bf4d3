"""The small files of a log directory: formats, offsets by partition, and the ends at a clean stop."""
