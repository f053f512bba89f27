"""Tables in files, larger than memory: Parquet, CSV, Arrow."""
