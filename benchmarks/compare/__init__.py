"""This queue beside others, in turns on the same servers; see benchmarks/README.md."""
