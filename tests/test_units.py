import pytest

from bench.units import bytes_text, parse_bytes, parse_rate, rate_text


@pytest.mark.parametrize(
    ("text", "size"),
    [("1KiB", 1024), ("64 MiB", 64 << 20), ("1kb", 1000), ("2G", 2 * 10**9), ("4096", 4096)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size
    assert parse_bytes(bytes_text(size)) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1KiB", "1 parsec", "0.3KiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|whole number"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1gbit", 1e9), ("200Mbit/s", 2e8), ("10GB", 8e10), ("1.5 MB/s", 1.2e7)],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == rate
    assert parse_rate(rate_text(rate)) == rate


@pytest.mark.parametrize("text", ["", "fast", "10", "10Gb", "25gbps", "0gbit", "-1gbit"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="rate"):
        parse_rate(text)
