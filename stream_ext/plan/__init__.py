"""Plans: the algebra of a text becomes logic, pass by pass; unsupported syntax is refused here, by name.

Its verb is *plan*. `pipeline` calls the passes in order; `logic` and `leaves` are the tree that they rewrite.

    refused_syntax/  what the engine does not run
    passes/          from algebra to logic, a module for each pass
    sources/         which parts of a query an attached triple store is asked for
    templates/       queries that differ in constants only become one template with parameters
    properties/      what can be read off a plan: is it costly, which columns does it read, may its arrivals be one step

It imports values and the language."""
