-- name: forget_plans
-- Let the next use of each prepared statement be planned for the tables as they are now.
DISCARD PLANS
