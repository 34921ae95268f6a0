"""Files: reading them safely, writing them whole or not at all, locks and names."""
