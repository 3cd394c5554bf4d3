"""Values of registered schemas as Arrow's columns, decoded in batches by compiled code: from types to arrays.

| module | what it is |
|---|---|
| `avro_types`, `protobuf_types`, `json_types` | the type of a schema's column, for Arrow, and so for Spark |
| `cursor`, `builders`, `steps` | compiled: bytes that are read, columns that grow, what all decoders share |
| `avro_steps`, `protobuf_steps`, `json_steps` | compiled: how a value of each format gets into its columns |
| `avro_resolution`, `avro_defaults` | the steps from a writer's schema to a reader's, and its defaults |
| `plans`, `avro_plan`, `protobuf_plan`, `json_plan` | **Plan**: a reader's column, and the steps from each writer |
| `planning` | the plan for a schema of any type |
| `arrays` | columns for Arrow's types, and arrays of what is in them |
| `decoder` | **ColumnDecoder**: values with the ids of their schemas become an array, and what is bad |
| `avro_values` | the same for Avro, as functions |
"""
