"""Terms and their ids: the dictionary, pages of texts, and terms that go with timing data.

Its verb is *look up*, either way. It imports layouts and what is below them; of edges it knows nothing."""
