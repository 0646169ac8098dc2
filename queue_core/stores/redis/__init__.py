"""Redis alone: jobs as hashes, states as sorted sets, every change one atomic script."""
