"""The model card of a run: `README.md` with the front matter that the Hugging Face Hub reads.

A run directory is published as it is: `huggingface_hub.upload_folder(folder_path="runs/NAME", …)`.
"""

import json
from typing import Any

from fewset import __version__
from fewset.experiments.config import Recipe
from fewset.experiments.result import Result

CARD = "README.md"


def run_card(recipe: Recipe, result: Result) -> str:
    """The card in Markdown. JSON is YAML, so the front matter needs no escaping of its own."""
    score = f"{100 * result.mean:.2f}" + (f" ± {100 * result.ci95:.2f}" if result.ci95 is not None else "")
    tasks = f"{result.way}-way {result.shot}-shot, {result.query} queries a class, {result.tasks:,} tasks"
    metadata = {
        "library_name": "fewset",
        "pipeline_tag": "image-classification",
        "tags": ["fewset", "few-shot-learning", result.method],
        "datasets": [result.data],
        "model-index": [{"name": result.run, "results": [_evaluation(result, tasks)]}],
    }
    front = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in metadata.items())
    return f"""---
{front}
---

# {result.run}

A few-shot model, {result.method} on the backbone {recipe.model.backbone}, made with fewset {__version__}.

| tasks | accuracy |
|---|---|
| {result.data} {result.split}, {tasks} | {score} % |

```python
import fewset

model = fewset.load("hub:OWNER/NAME")  # or the path of this directory
```

`recipe.toml` has all settings, `result.json` the result with its command, commit and versions.
"""


def _evaluation(result: Result, tasks: str) -> dict[str, Any]:
    return {
        "task": {"type": "image-classification", "name": f"few-shot classification, {tasks}"},
        "dataset": {"name": result.data, "type": result.data, "split": result.split},
        "metrics": [{"type": "accuracy", "value": round(100 * result.mean, 2)}],
    }
