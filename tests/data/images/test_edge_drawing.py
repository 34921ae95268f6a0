"""Photographs as drawings of their edges."""

import numpy as np
import pytest
from PIL import Image

from fewset.data.images.edge_drawing import edge_drawing


def test_edges_are_dark_lines_on_white() -> None:
    pixels = np.zeros((31, 41, 3), dtype=np.uint8)
    pixels[:, 20:] = (200, 150, 90)
    drawn = edge_drawing(Image.fromarray(pixels))
    assert (drawn.mode, drawn.size) == ("RGB", (37, 27))
    grey = np.asarray(drawn).astype(int)
    assert (grey == grey[..., :1]).all()  # no colour is left
    assert (grey[:, :14] == 255).all()
    assert (grey[:, 22:] == 255).all()
    assert (grey.min(axis=1) < 60).all()  # the line goes from top to bottom


def test_what_is_too_small_to_have_edges_is_refused() -> None:
    assert edge_drawing(Image.new("RGB", (5, 7))).size == (1, 3)
    with pytest.raises(ValueError, match="4 x 7 pixels, expected 5 a side or more"):
        edge_drawing(Image.new("RGB", (4, 7)))
