import pytest

from checkrail.agent.tools.docstring import parameter_texts, summary_of

GOOGLE = """Look a city up.

    Args:
        city: The city,
            in English.

        unit (str, optional): C or F.
        when (Callable[[int], tuple(int)]): The day: today unless said.
        nothing:
        **more: And more.

    Returns:
        found: What there is.
    """

NUMPY = """Look a city up.

    Parameters
    ----------
    city : str
        The city,
        in English.
    unit
        C or F.
    low, high : int
        The range.

    Returns
    -------
    found : str
        What there is.
    """

SPHINX = """Look a city up.

    :param city: The city,
        in English.
    :param str unit: C or F.
    :type unit: str
    :returns: what there is
    """


@pytest.mark.parametrize(
    ("docstring", "texts"),
    [
        (
            GOOGLE,
            {
                "city": "The city, in English.",
                "unit": "C or F.",
                "when": "The day: today unless said.",
                "more": "And more.",
            },
        ),
        (
            NUMPY,
            {
                "city": "The city, in English.",
                "unit": "C or F.",
                "low": "The range.",
                "high": "The range.",
            },
        ),
        (SPHINX, {"city": "The city, in English.", "unit": "C or F."}),
        ("Parameters\n----------\ncity : str\n    The city.", {"city": "The city."}),
        ("Look a city up. Args: none.", {}),
        ("Parameters\n\nare not told here.", {}),
        ("Args:", {}),
        ("Args:\n    just words\n      and more", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_parameters_are_described_in_the_usual_styles(docstring, texts):
    assert parameter_texts(docstring) == texts


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        (GOOGLE, "Look a city up."),
        ("One line.", "One line."),
        ("Two\n    lines.\n\n    More.", "Two lines."),
        ("\n    Begins below.\n    ", "Begins below."),
        ("Args:\n    x: no summary", ""),
        ("Look.\n:param x: at this", "Look."),
        ("Look.\nParameters\n----------\nx : int", "Look."),
        ("Note: look here.", "Note: look here."),
        ("", ""),
        (None, ""),
    ],
)
def test_the_first_paragraph_is_the_summary(docstring, text):
    assert summary_of(docstring) == text
