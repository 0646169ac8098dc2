-- A page of jobs over the places that can hold them, each read in order and no further than the page.
SELECT * FROM ({places}) AS page ORDER BY {order} LIMIT %(limit)s
