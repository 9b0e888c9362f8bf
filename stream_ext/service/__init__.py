"""The service: what endpoint, plugin and command line talk to. Streams, registrations, pushes, statements, status.

It puts the other rooms together, and may import all of them; none imports it."""
