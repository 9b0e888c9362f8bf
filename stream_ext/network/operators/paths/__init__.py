"""Property paths: walked over edges of the store or of a window, and kept as these come and go."""
