"""What every front end is built on, without a screen: connection, snapshot, model, operations, words and numbers."""
