"""Groups and collectors as Spark reads and writes them: the data source `unisono`."""
