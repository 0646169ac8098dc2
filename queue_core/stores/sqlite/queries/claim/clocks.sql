-- Both clocks as they were last noted.
SELECT wall, steady, machine FROM clocks
