"""Edges as they are read: layers of runs, what changed above them, and a snapshot over both.

Its verb is *read at a snapshot*. It imports layouts and what is below them; of terms it knows nothing but ids."""
