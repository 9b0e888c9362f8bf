"""Layouts: how terms, blocks, runs, slabs and the small rows are written as bytes, and read back.

Its verbs are *pack* and *unpack*. It imports sorted rows and the key-value protocol; it reads no store."""
