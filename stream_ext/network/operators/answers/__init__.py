"""What makes an answer of solutions: CONSTRUCT, DISTINCT, ORDER BY and LIMIT, ISTREAM, DSTREAM and RSTREAM."""
