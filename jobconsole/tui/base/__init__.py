"""What every view stands on: the host, keys, messages, the refresher, the operator."""
