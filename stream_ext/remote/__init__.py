"""HTTP to other machines: which URLs may be fetched, how, and how long an endpoint that failed is not queried.

The query that SERVICE sends is written in `network/operators/remote`. Its verb is *fetch*. It imports rdf."""
