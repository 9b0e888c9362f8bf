"""Property paths: walked over edges of the store or of a window, and updated as edges come and go."""
