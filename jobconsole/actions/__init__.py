"""What changes something: verbs, plans, edits, exports."""
