"""The source: topics read by Spark, in batches and as streams.

The driver plans (`options` → `topics`, `offsets` → `ranges`, for streams `admission`), in `batch_reader` and
`stream_reader`; a task fetches its range (`range_fetcher`), and hands it to Spark as Arrow (`reading`, `columns`,
`json_values`).
"""
