-- Raise the lease epoch durably where its live copy is missing; both become visible with the same, synchronous commit.
-- Also where the server's default is asynchronous: an epoch that a crash takes back would come twice.
WITH firm AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'on', true)
), raised AS (
    UPDATE lease_epoch SET epoch = epoch + 1 WHERE NOT EXISTS (SELECT FROM lease_epoch_live) RETURNING epoch
)
INSERT INTO lease_epoch_live (epoch) SELECT epoch FROM raised, firm ON CONFLICT DO NOTHING
