"""Rows as CSV that a spreadsheet shows and never runs."""

import polars as pl

# A text cell that starts so is a formula to a spreadsheet, white space before it or not
# (OWASP, CSV Injection). Real numbers are no text and stay as they are.
UNSEEN = r"\s\x00-\x1f\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{feff}"
RISKY = rf"^[{UNSEEN}]*[=+\-@|%＝＋－＠]|^[\t\r\n]"


def csv(frame: pl.DataFrame) -> bytes:
    """UTF-8 with a heading. Text is quoted; text that looks like a formula gets an apostrophe."""
    flat = frame.with_columns(pl.col(pl.List(pl.String)).list.join(", "))
    text = pl.col(pl.String)
    safe = pl.when(text.str.contains(RISKY)).then(pl.lit("'") + text).otherwise(text)
    flat = flat.with_columns(safe.name.keep())
    return flat.write_csv(quote_style="non_numeric", datetime_format="%Y-%m-%dT%H:%M:%SZ").encode()
