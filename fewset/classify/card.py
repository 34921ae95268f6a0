"""A fitted classifier in words: lines for a terminal, and a model card in Markdown."""

from math import isfinite

from fewset import __version__
from fewset.classify.labels import plain_label
from fewset.classify.model import Learned
from fewset.classify.trust.rejection import SHARE
from fewset.io.paths import without_machine

_LISTED = 10
_LIMITS = """\
The accuracy is that of the labelled photos, each classified without itself, its copies and its group, with
a 95 % interval. It holds for new photos that are like these: the same cameras, places and backgrounds.
Probabilities are calibrated on the same answers."""
_UNCALIBRATED = """\
With so few photos none can be left out to test the classifier. The probabilities are not calibrated on
these photos: they are as high as answers were right, on average, on other sets with classes as alike."""


def summary(learned: Learned) -> list[str]:
    """The findings, one a line, the most important first."""
    trust = learned.trust
    lines = [trust.in_words]
    if trust.occasions_in_words is not None:
        lines.append(trust.occasions_in_words)
    if trust.tested:
        lines.append(f"{trust.right:,} of {trust.tested:,} photos right when left out")
    if learned.background is not None:
        lines.append(learned.background.comparison.in_words)
    if trust.tested and trust.untested:
        names = ", ".join(_label(learned, number) for number in trust.untested[:_LISTED])
        more = f" and {len(trust.untested) - _LISTED} more" if len(trust.untested) > _LISTED else ""
        lines.append(f"not tested, with fewer than {trust.least}: {names}{more}")
    lines += [
        f"{each.photos} photo{'s' * (each.photos > 1)} of {_label(learned, each.label)} taken for "
        f"{_label(learned, each.taken_for)}"
        for each in trust.confusions[:_LISTED]
    ]
    lines += [
        f"{_photo(learned, suspect.photo)} looks mislabelled: {_label(learned, suspect.looks_like)} "
        f"({100 * suspect.probability:.0f} %)"
        for suspect in trust.suspects[:_LISTED]
    ]
    lines += [_copies(learned, group) for group in trust.copies[:_LISTED]]
    lines.append(f"another photo of {_label(learned, trust.weakest)} would help most")
    return lines


def hub_front_matter() -> str:
    """What the Hugging Face Hub reads at the beginning of a card."""
    return """---
library_name: fewset
pipeline_tag: image-classification
tags: [fewset, few-shot-learning]
---

"""


def model_card(learned: Learned, name: str) -> str:
    """A card in Markdown: the content of the classifier, its accuracy, and its limits."""
    support, trust, limit = learned.support, learned.trust, learned.threshold(SHARE)
    encoder = "none: rows of features"
    if learned.encoder is not None:
        encoder = f"{_escaped(learned.encoder.id)} (sha256 {learned.encoder.digest[:12]})"
    shots = support.shots
    findings = "\n".join(f"- {_escaped(line)}" for line in summary(learned))
    rows = "\n".join(
        f"| {_escaped(_label(learned, number))} | {count} |" for number, count in enumerate(shots)
    )
    rejection = (
        f"A photo whose closeness is below {limit:.3f} is none of these, if that is asked for; "
        f"about {100 * SHARE:.0f} % of the classes' own photos are rejected too."
        if isfinite(limit)
        else "No photo is rejected: that takes two different photos of a class."
    )
    return f"""# {_escaped(name)}

A classifier of {len(shots)} classes from {len(support)} photos, made with fewset {__version__}.

| | |
|---|---|
| encoder | {encoder} |
| features | {support.features.shape[1]} |
| head | {learned.head} |
| temperature | {trust.temperature:.3g} |

| class | photos |
|---|---|
{rows}

## How far to trust it

{findings}

{_LIMITS if trust.calibrated else _UNCALIBRATED}

## None of these

{rejection}

## What it is not for

Decisions about people, and uses where an occasional error does harm. It knows only the classes above, and a
photo of another thing may still get one of their names.
"""


def _label(learned: Learned, number: int) -> str:
    return str(plain_label(learned.support.classes[number]))


def _photo(learned: Learned, number: int) -> str:
    return without_machine(learned.support.names[number]) or f"row {number}"


def _copies(learned: Learned, group: tuple[int, ...]) -> str:
    labels = learned.support.labels
    if len({labels[photo] for photo in group}) == 1:
        return f"copies of one photo: {', '.join(_photo(learned, photo) for photo in group)}"
    named = (f"{_photo(learned, photo)} ({_label(learned, int(labels[photo]))})" for photo in group)
    return f"contradiction, one photo in several classes: {', '.join(named)}"


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|&" else letter for letter in text)
