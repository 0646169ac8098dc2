"""What every view is built on: the host, keys, messages, the refresher, the operator."""
