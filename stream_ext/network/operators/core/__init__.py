"""What every operator has: the verb, the moment of an evaluation, patterns over ids, conditions bound to columns."""
