"""The language: text to algebra (`syntax`), algebra to text (`printing`), and the algebra itself.

Its verbs are *parse* and *print*. It imports rdf, times and errors: no store, no engine."""
