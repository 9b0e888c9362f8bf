"""Plans: the algebra of a text becomes logic, pass by pass; unsupported syntax is refused here, by name.

Its verb is *plan*: plain functions, a file for each pass, in the order of `pipeline`.
It imports values and the language."""
