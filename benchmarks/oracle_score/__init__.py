"""How many planted faults the oracle catches, and whether it ever refutes an honest kernel: `make oracle-score`."""
