"""Run in a new process: several threads use fewset for the first time, all at once. Prints what is wrong."""

import sys
import threading
from collections.abc import Callable

import numpy as np
from PIL import Image

import fewset

THREADS = 8


def load_model() -> None:
    model = fewset.load("miniimagenet-conv4-feat-1shot")
    assert model.dim == 64


def fit_rows() -> None:
    rows = np.repeat(10 * np.eye(3, 7, dtype=np.float32), 4, axis=0)
    classifier = fewset.FewShotClassifier().fit(rows, np.repeat(["a", "b", "c"], 4))
    assert classifier.predict(10 * np.eye(3, 7)).tolist() == ["a", "b", "c"]


COLOURS = ["red", "green", "blue"]


def photos() -> list[Image.Image]:
    return [Image.new("RGB", (64, 64), colour) for colour in COLOURS]


def fit_photos() -> None:
    classifier = fewset.FewShotClassifier().fit(photos(), COLOURS)
    assert classifier.predict(photos()).tolist() == COLOURS


def load_and_predict() -> None:
    classifier = fewset.FewShotClassifier.load(sys.argv[2])
    assert classifier.predict(photos()).tolist() == COLOURS


def use_at_once(uses: list[Callable[[], None]]) -> list[str]:
    """The exceptions of the threads, one for each use."""
    problems: list[str] = []
    together = threading.Barrier(len(uses))

    def run(use: Callable[[], None]) -> None:
        together.wait()
        try:
            use()
        except Exception as error:
            problems.append(f"{use.__name__}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(use,)) for use in uses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


if __name__ == "__main__":
    known = {"load": [load_model], "rows": [fit_rows], "photos": [fit_photos]}
    known["file"] = [load_and_predict]
    known["mixed"] = [load_model, fit_rows, fit_photos, load_and_predict]
    chosen = known[sys.argv[1]]
    print("\n".join(use_at_once(chosen * (THREADS // len(chosen)))))
