"""From run directories to tables, figures and one self-contained HTML page.

`loading` reads and checks the files of runs, `comparison` compares them pairwise, `tables` and `figures` show
the comparisons, `page` puts all of it on one page. Nothing here needs a model, an image set or a network.
"""
