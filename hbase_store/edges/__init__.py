"""Reading edges: layers of runs, the overlay of newer changes, and a snapshot over both.

Its verb is *read at a snapshot*. It imports layouts and what is below them; of terms it knows nothing but ids."""
