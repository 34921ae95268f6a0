"""How fast fewset is, as ratios within one run, and the page that shows it.

Each side of a comparison is a process of its own (`workers`), since the allocator and the number of threads
belong to a process. The sides take turns, one repetition each, so that whatever else the machine does meets
all of them. What a side does is in `sides`, what is compared with what in `parts`.
"""
