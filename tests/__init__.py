"""The tests, and the doubles and servers that they run against."""
