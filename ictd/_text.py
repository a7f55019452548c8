"""Tables as text."""


def table(lines, align, gap="  "):
    """Lines of cells, with each column as wide as its widest cell.

    Parameters
    ----------
    lines : sequence of sequence of str
        Of equal lengths.
    align : str
        "<" or ">" for each column.
    gap : str
        Stands between columns.

    Returns
    -------
    list of str
        Without spaces at their ends.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        gap.join(f"{cell:{side}{width}}" for cell, side, width in zip(line, align, widths, strict=True)).rstrip()
        for line in lines
    ]
