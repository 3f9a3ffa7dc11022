"""Array namespaces and devices of this machine, and the fast implementations that the statements are held against."""
