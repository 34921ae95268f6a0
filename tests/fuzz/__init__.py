"""The fuzzing room: every reader of fewset on damaged and hostile input, and every command on odd options.

`make fuzz MINUTES=30` runs it for long, `make kills KILLS=50` kills commands at random moments, and
`python -m tests.fuzz --help` says what else there is. An input is a pure function of the seed, the reader and
its number, so that whatever fails can be made again.
"""
