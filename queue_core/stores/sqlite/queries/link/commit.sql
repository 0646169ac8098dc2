-- Make everything since the begin visible to others.
COMMIT
