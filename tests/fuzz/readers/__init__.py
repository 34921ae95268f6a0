"""Each reader draws damaged files of a kind, and the command that reads them."""
