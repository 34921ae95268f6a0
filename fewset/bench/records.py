"""Records of `fewset bench` as tables."""

from fewset.bench.measuring import Record
from fewset.report.tables import Column, Table, plain_text


def record_tables(record: Record) -> tuple[Table, Table]:
    """The sides with their speed and memory, and the ratios."""
    sides = Table(
        _title(record),
        tuple(Column(title, title) for title in ("Side", "Images/s", "Seconds", "Peak memory")),
        tuple(
            (
                side["side"],
                f"{side['images_per_second']:,.1f}",
                f"{side['images'] / side['images_per_second']:.3f} "
                f"({min(side['seconds']):.3f} to {max(side['seconds']):.3f})",
                f"{side['peak_memory'] / 2**20:,.0f} MiB",
            )
            for side in record["sides"]
        ),
    )
    ratios = Table(
        "Ratios",
        (Column("Ratio", "ratio"), Column("Median", "median"), Column("Range", "range")),
        tuple(
            (ratio["what"], f"{ratio['median']:.2f}", f"{ratio['low']:.2f} to {ratio['high']:.2f}")
            for ratio in record["ratios"]
        ),
        tuple(record["facts"]),
    )
    return sides, ratios


def record_text(record: Record) -> str:
    return "\n".join(plain_text(table) for table in record_tables(record))


def _title(record: Record) -> str:
    options = record["options"]
    if "encoder" in options:
        return f"{record['part']}: {options['encoder']}"
    if "heads" in options:
        tasks = f"{options['tasks']:,} {options['way']}-way {options['shot']}-shot tasks"
        return f"{record['part']}: {tasks}, rows of {options['dim']} numbers"
    model = options.get("run") or options["backbone"]
    size = f", {options['size']} px" if options["size"] else ""
    return f"{record['part']}: {model} on {options['data']}{size}"
