"""One file a kind of file: each draws damaged ones, and the commands that read them."""
