"""Every reader of fewset on damaged and hostile input, and every command on odd options.

`make fuzz MINUTES=30` runs it for long, `make kills KILLS=50` kills commands at random moments, and
`python -m tests.fuzz --help` names the other commands. An input depends on the seed, the reader and its
index alone, so that each failure can be made again.
"""
