-- Ask the worker of a running job to stop it.
UPDATE jobs SET cancel = 1 WHERE number = ?
