"""Forwarding: a server that reads a store sends writes on to the server that writes to it, and answers as if it had
done them. Verb: forward. It imports `http` and what that may import."""
