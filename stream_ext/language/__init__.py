"""The language: text to algebra (`syntax`), algebra to text (`printing`), and the algebra itself.

Syntax that the engine does not run is refused later, in `plan/refused_syntax`. Its verbs are *parse* and *print*. It
imports rdf, times and errors: no store, no engine."""
