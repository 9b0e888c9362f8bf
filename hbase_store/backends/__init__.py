"""Backends: the key-value protocol, its implementations on LMDB and HBase, and the lease of the one writer.

Its verbs are the six of the protocol. It imports errors only; nothing else imports lmdb or happybase."""
