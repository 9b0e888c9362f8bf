"""Backends: the key-value protocol, and what keeps it: LMDB and HBase; the lease of the one writer.

Its verbs are the six of the protocol. It imports errors only; nothing else imports lmdb or happybase."""
