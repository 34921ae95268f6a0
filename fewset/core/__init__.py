"""What every room uses: errors, the registry of members, parsing, progress."""
