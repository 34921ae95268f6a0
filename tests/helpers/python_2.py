"""Pickles as Python 2 wrote them."""

import struct

import numpy as np


def python_2_array(array: np.ndarray) -> bytes:
    """As Python 2 with NumPy 1 wrote it: the content is a string without an encoding."""
    shape = b"".join(b"I%d\n" % side for side in array.shape)
    data = array.tobytes()
    kind = array.dtype.str
    return (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n("
        + shape
        + b"tcnumpy\ndtype\n(S'%s'\nI0\nI1\ntR(I3\nS'%s'\nNNNI-1\nI-1\nI0\ntbI00\n"
        % (kind[1:].encode(), kind[:1].encode())
        + b"T"
        + struct.pack("<i", len(data))
        + data
        + b"tb"
    )
