"""What every front end stands on, without a screen: connection, snapshot, model, operations, words and numbers."""
