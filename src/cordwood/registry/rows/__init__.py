"""Arrow columns to rows in Avro, JSON or Protobuf: encoding for bulk writers such as Spark's sink.

deriving.py        a schema for columns that have none; avro_deriving.py, json_deriving.py, protobuf_deriving.py
row_encoder.py     compiled: trees of cells that write Avro and Protobuf
avro_rows.py       columns and an Avro type to such a tree; protobuf_rows.py  the same for a message
json_rows.py       columns to JSON
arrays.py          Arrow arrays as the compiled module takes them
"""
