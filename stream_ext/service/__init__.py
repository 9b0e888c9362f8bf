"""The service: the API for endpoint, plugin and command line. Streams, registrations, pushes, statements, status.

It connects the other rooms, and may import all of them; none imports it."""
