-- Begin a transaction whose statements each see what was committed before them; behind it come the bounds.
BEGIN ISOLATION LEVEL READ COMMITTED
