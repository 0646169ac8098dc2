"""The changes that operators make: verbs, plans, edits, exports."""
