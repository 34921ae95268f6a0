"""Photos as users give them, as rows of features, and as a classifier keeps them."""
