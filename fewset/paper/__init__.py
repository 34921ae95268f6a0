"""The tables and figures of the FEAT paper, with the paper's own numbers beside ours."""
