"""Other machines: which URLs may be fetched, how, and what is known of endpoints that did not answer.

Its verb is *fetch*. It imports rdf."""
