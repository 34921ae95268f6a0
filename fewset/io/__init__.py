"""Files: the only room that reads foreign bytes, and writes files whole or not at all.

A reader of damaged bytes raises `Damaged`, with the path and the reason (`fewset.io.reading`). An error of
the system stays an `OSError` (`fewset.io.os_errors`). At the public edge, `remedy` adds how to fix the file.
"""
