"""Templates: registered queries that differ in constants only are one template, and their constants are its parameters.

    ?taxi :in :zone1   and   ?taxi :in :zone2   =>   ?taxi :in ?parameter,   with the rows :zone1 and :zone2

The verb is *parametrise*. It imports the tree of a plan."""
