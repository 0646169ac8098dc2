"""What operators know of errors: the releases in which they appear."""
