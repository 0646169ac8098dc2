-- Forget everything that a handler may have left in its session: settings, temporary tables, locks, listens.
DISCARD ALL
