-- Show whether the connection is still there.
SELECT 1
