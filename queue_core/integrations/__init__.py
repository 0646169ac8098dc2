"""What joins queues with other libraries, each an extra of its own: nothing here is imported on its own."""
