"""From run directories to tables, figures and one self-contained HTML page.

`results` reads and checks the files of runs and compares them pairwise, `tables` and `figures` show the
comparisons, `page` puts all of it on one page. `study` shows the tables and figures of the paper, with the
paper's own numbers (`paper`) beside ours. Nothing here needs a model, an image set or a network.
"""
