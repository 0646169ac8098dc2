-- Tell whether a day has any job left.
SELECT EXISTS (SELECT FROM {day})
