"""The base of all rooms: errors, the registry of members, parsing, random streams, progress."""
