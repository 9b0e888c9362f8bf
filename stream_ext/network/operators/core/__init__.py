"""Parts of all operators: the protocol, the moment of an evaluation, patterns over ids, conditions bound to columns."""
