"""The operators: one class, one verb (`step`), one law.

The law: at every evaluation, the sum of what an operator has put out equals the operator applied to the sum of what
came in, where a row counts up to its `until`. Tests hold each operator to it.

The rooms are named for what their operators do; `core` is what all of them have.
`network.building` chooses among them."""
