"""The accuracy of every method on one table of features: heads are compared here, not recipes."""
