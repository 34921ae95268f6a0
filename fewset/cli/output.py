"""What commands print: text as it is, tables, results of runs."""

from typing import Any

from rich.console import Console

console = Console(highlight=False, soft_wrap=True)


def echo(text: str) -> None:
    console.print(text, markup=False)


def print_error(error: Exception) -> None:
    from rich.markup import escape

    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}")


def print_result(result: dict[str, Any]) -> None:
    tasks = f"{result['way']}-way {result['shot']}-shot, {result['tasks']:,} tasks"
    place = f"{result['data']}/{result['split']}"
    if result["setting"] != "standard":
        tasks = f"{result['setting']}, {tasks}"
    if result["before"]:
        echo(f"before adaptation: {_percent(result['before'])}")
    for name, score in result.get("scores", {}).items():
        echo(f"{name.replace('_', ' ')}: {_percent(score)}")
    if "calibration" in result:
        echo(
            f"constant: {result['calibration']['constant']}, area of the curve: {result['curve']['area']:.4f}"
        )
    echo(f"{result['method']} on {place}, {tasks}: {_percent(result)}")


def _percent(score: dict[str, Any]) -> str:
    return f"{100 * score['mean']:.2f} ± {100 * score['ci95']:.2f} %"
