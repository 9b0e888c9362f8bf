"""From solutions to answers: CONSTRUCT, DISTINCT, ORDER BY and LIMIT, ISTREAM, DSTREAM and RSTREAM."""
