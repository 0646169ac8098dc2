-- Start a transaction that sees one moment.
BEGIN DEFERRED
