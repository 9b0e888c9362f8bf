"""Other machines: which URLs may be fetched, how, and how long an endpoint that failed is not queried.

Its verb is *fetch*. It imports rdf."""
