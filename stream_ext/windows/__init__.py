"""Windows: at which times a query is evaluated, over which elements, and which elements are too late for it.

Pure functions of the pushes; `upkeep` counts and lists what is late. It imports the windows of the language, and of the
store only how arrivals are read: no clock, no process."""
