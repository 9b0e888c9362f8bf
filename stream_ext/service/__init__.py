"""The service: the API for endpoint, plugin and command line. Streams, registrations, pushes, statements, status.

`service` is the face; its methods are in its sections: streams, pushes, statements, graphs, registrations, results,
sources. `opened` is what they share, `engine` what happens to a snapshot once it is published.

It connects the other rooms, and may import all of them; none imports it."""
