-- Raise the lease epoch durably where its live copy is missing; both become visible with the same, synchronous commit.
WITH raised AS (
    UPDATE lease_epoch SET epoch = epoch + 1 WHERE NOT EXISTS (SELECT FROM lease_epoch_live) RETURNING epoch
)
INSERT INTO lease_epoch_live (epoch) SELECT epoch FROM raised ON CONFLICT DO NOTHING
