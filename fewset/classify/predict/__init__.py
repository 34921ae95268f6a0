"""Answers for any number of photos: in memory, as files, and as photos sorted into folders."""
