"""Properties: what can be read off the plan of a query, whatever the data are.

Is it costly? Which columns does it read, which terms does it name? Can it be evaluated for given values only? Can many
arrivals be one step? The functions are pure and change nothing. It imports the tree of a plan."""
