"""Fast delivery paths beside the store."""
