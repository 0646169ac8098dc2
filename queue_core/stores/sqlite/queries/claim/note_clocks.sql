-- Note how the clocks are.
UPDATE clocks SET wall = ?, steady = ?, machine = ?
