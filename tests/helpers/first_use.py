"""Run in a new process: eight threads use fewset for the first time, all at once. Prints what is wrong."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

import fewset

THREADS = 8
together = threading.Barrier(THREADS)


def load_model() -> None:
    together.wait()
    assert fewset.load("miniimagenet-conv4-feat-1shot").dim == 64


def fit_rows() -> None:
    rows = np.repeat(10 * np.eye(3, 7, dtype=np.float32), 4, axis=0)
    together.wait()
    classifier = fewset.FewShotClassifier().fit(rows, np.repeat(["a", "b", "c"], 4))
    assert classifier.predict(10 * np.eye(3, 7)).tolist() == ["a", "b", "c"]


COLOURS = ["red", "green", "blue"]


def photos() -> list[Image.Image]:
    return [Image.new("RGB", (64, 64), colour) for colour in COLOURS]


def fit_photos() -> None:
    together.wait()
    classifier = fewset.FewShotClassifier().fit(photos(), COLOURS)
    assert classifier.predict(photos()).tolist() == COLOURS


def load_and_predict() -> None:
    together.wait()
    classifier = fewset.FewShotClassifier.load(sys.argv[2])
    assert classifier.predict(photos()).tolist() == COLOURS


if __name__ == "__main__":
    known = {"load": [load_model], "rows": [fit_rows], "photos": [fit_photos]}
    known["file"] = [load_and_predict]
    known["mixed"] = [load_model, fit_rows, fit_photos, load_and_predict]
    chosen = known[sys.argv[1]]
    with ThreadPoolExecutor(THREADS) as pool:
        for used in [pool.submit(use) for use in chosen * (THREADS // len(chosen))]:
            if used.exception() is not None:
                print(repr(used.exception()))
