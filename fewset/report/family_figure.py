"""What the set of the demo looks like: a family for each aspect in which classes differ."""

import numpy as np
from matplotlib.figure import Figure

from fewset.data.images.families import ASPECTS, MEMBERS, aspect_of
from fewset.data.images.store import ImageSet
from fewset.report.figures import WIDTH, style

_CLASSES, _DRAWINGS = 5, 7  # of a family


@style()
def family_figure(images: ImageSet) -> Figure:
    """The first test family of each aspect: a class in each row, one drawing beside the other."""
    families = sorted(set((images.select("test").labels // MEMBERS).tolist()))
    figure = Figure(figsize=(WIDTH, 0.8 * WIDTH), layout="constrained")
    panels = figure.subplots(2, -(-len(ASPECTS) // 2)).ravel()
    for aspect, panel in zip(ASPECTS, panels, strict=True):
        family = next(number for number in families if aspect_of(number) == aspect)
        rows = [
            images.images[np.flatnonzero(images.labels == family * MEMBERS + place)[:_DRAWINGS]]
            for place in range(_CLASSES)
        ]
        framed = np.pad(np.stack(rows), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
        classes, drawings, high, wide, _ = framed.shape
        sheet = framed.swapaxes(1, 2).reshape(classes * high, drawings * wide, 3)
        panel.imshow(sheet, interpolation="nearest")
        panel.set_title(f"Classes differ in {aspect}")
        panel.set_axis_off()
    return figure
