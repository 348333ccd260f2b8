from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.case import (
    CHOICES,
    COLLECTIVE_FIELDS,
    DDP_FIELDS,
    DEFAULT,
    FIELD_NAMES,
    Case,
    parse_value,
)


def test_an_id_holds_only_what_is_not_default() -> None:
    assert DEFAULT.id == "ddp-mlp-w1"
    assert Case(model="resnet18", world_size=2).id == "ddp-resnet18-w2"
    case = Case(model="a/b c.py", backend="nccl", batch_size=8, gradient_as_bucket_view=True)
    assert case.id == "ddp-a_b_c-w1-b8-nccl-view"


COLLECTIVE = Case(
    model="", strategy="collective", collective="all_reduce", bytes=1 << 20, world_size=2
)


def test_a_collective_has_no_samples_and_its_size_in_its_id() -> None:
    assert COLLECTIVE.id == "collective-all_reduce-w2-1MiB"
    assert COLLECTIVE.replace(dtype="uint8").id == "collective-all_reduce-w2-1MiB-uint8"
    assert COLLECTIVE.in_group and not COLLECTIVE.trains
    assert COLLECTIVE.granule_bytes == 4
    assert COLLECTIVE.replace(collective="all_gather", world_size=3).granule_bytes == 12


def test_unset_and_25_are_different_cases() -> None:
    unset, explicit = Case(bucket_cap_mb=None), Case(bucket_cap_mb=25)
    assert unset != explicit
    assert unset.id != explicit.id == "ddp-mlp-w1-cap25"


@pytest.mark.parametrize("name", [field.name for field in fields(Case)])
def test_every_field_shows_in_the_id(name: str) -> None:
    base = DEFAULT
    if name in COLLECTIVE_FIELDS:
        base = COLLECTIVE
    other = {
        "collective": "broadcast",
        "bytes": 4096,
        "model": "cifar_cnn",
        "strategy": "all_reduce",
        "world_size": 4,
        "batch_size": 7,
        "bucket_cap_mb": 5,
        "threads": 3,
        "seed": 9,
        "torch": "old",
    }
    default = getattr(base, name)
    if isinstance(default, bool):
        value: object = not default
    elif name in other:
        value = other[name]
    else:
        value = next(choice for choice in CHOICES[name] if choice != default)
    assert base.replace(**{name: value}).id != base.id


def any_case() -> st.SearchStrategy[Case]:
    """Every field at any value it may have."""
    fields_: dict[str, st.SearchStrategy[object]] = {
        name: st.sampled_from(choices) for name, choices in CHOICES.items()
    }
    for name in FIELD_NAMES:
        if isinstance(getattr(DEFAULT, name), bool):
            fields_[name] = st.booleans()
    fields_ |= {
        "model": st.text(min_size=1),
        "world_size": st.integers(1, 4096),
        "batch_size": st.integers(1, 10_000),
        "bucket_cap_mb": st.none() | st.integers(1, 1000) | st.floats(0.01, 1000),
        "threads": st.none() | st.integers(1, 512),
        "seed": st.integers(0, 2**31),
        "torch": st.text(),
        "bytes": st.integers(1, 2**32),
    }
    assert set(fields_) == set(FIELD_NAMES)
    return st.fixed_dictionaries(fields_).map(_made_to_fit)


def _made_to_fit(values: dict[str, Any]) -> Case:
    """A model has no bytes, a collective no model and two ranks or more."""
    if values["strategy"] == "collective":
        values["model"] = ""
        values["collective"] = values["collective"] or "all_reduce"
        values["world_size"] = max(2, values["world_size"])
    else:
        values = {name: value for name, value in values.items() if name not in COLLECTIVE_FIELDS}
    return Case.from_dict({**values, "world_size": 1} if values["strategy"] == "single" else values)


@given(any_case())
def test_json_there_and_back(case: Case) -> None:
    again = Case.from_json(case.to_json())
    assert again == case
    assert again.id == case.id


@given(any_case())
def test_an_id_is_one_word_for_the_shell_and_for_pytest(case: Case) -> None:
    assert not re.search(r"[\s\[\],/'\"$();|&<>*?!\\]", case.id)


@given(any_case(), st.sampled_from([name for name in FIELD_NAMES if name != "model"]))
def test_a_field_at_its_default_is_not_in_the_id(case: Case, name: str) -> None:
    """Only strategy, model and world size always are."""
    if name in ("strategy", "world_size"):
        return
    if name in COLLECTIVE_FIELDS or not case.trains:
        return
    plain = Case(model="m", world_size=case.world_size if case.strategy != "single" else 1)
    value = getattr(case, name)
    changed = plain.replace(**{name: value})
    assert (changed.id == plain.id) == (value == getattr(DEFAULT, name))


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(ValueError) as refused:
        Case.from_json('{"wolrd_size": 2}')
    assert str(refused.value) == "unknown case field 'wolrd_size'; did you mean 'world_size'?"
    with pytest.raises(ValueError) as refused:
        Case.from_json('{"zzz": 2}')
    assert str(refused.value) == "unknown case field 'zzz'"
    with pytest.raises(ValueError, match="a case is a JSON object, not list"):
        Case.from_json("[]")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "dpp"}, "strategy='dpp' is not known; did you mean"),
        ({"world_size": 0}, "world_size=0 must be a whole number of at least 1"),
        ({"batch_size": True}, "batch_size=True must be"),
        ({"bucket_cap_mb": 0}, "bucket_cap_mb=0 must be a number above 0, or unset"),
        ({"bucket_cap_mb": -1}, "bucket_cap_mb=-1 must be"),
        ({"bucket_cap_mb": float("nan")}, "bucket_cap_mb=nan must be"),
        ({"bucket_cap_mb": float("inf")}, "bucket_cap_mb=inf must be"),
        ({"bucket_cap_mb": "25"}, "bucket_cap_mb='25' must be"),
        ({"bucket_cap_mb": True}, "bucket_cap_mb=True must be"),
        ({"gradient_as_bucket_view": "false"}, "gradient_as_bucket_view='false' must be true or"),
        ({"static_graph": 1}, "static_graph=1 must be true or false"),
        ({"threads": 0}, "threads=0 must be a whole number of at least 1"),
        ({"seed": -1}, "seed=-1 must be a whole number of at least 0"),
        ({"batch_size": 1.5}, "batch_size=1.5 must be a whole number"),
        ({"model": 5}, "model=5 must be text"),
        ({"torch": None}, "torch=None must be text"),
        ({"strategy": "single", "world_size": 2}, "strategy=single is one process"),
        ({"model": ""}, "model is empty"),
        ({"bytes": 4}, "bytes=4 is for strategy=collective, not for ddp"),
        ({"strategy": "collective"}, "a collective has no model"),
        ({"strategy": "collective", "model": ""}, "which collective"),
        ({"strategy": "collective", "model": "", "collective": "pairs"}, "at least 1"),
        (COLLECTIVE.replace(collective="pairs").to_dict() | {"world_size": 1}, "moves nothing"),
        ({"dtype": "float8"}, "dtype='float8' is not known"),
    ],
)
def test_bad_values_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DEFAULT.replace(**changes)


def test_the_batch_of_the_whole_job() -> None:
    assert Case(world_size=4, batch_size=8).global_batch_size == 32
    dp = Case(strategy="dp", device="cuda", world_size=4, batch_size=8)
    assert (dp.global_batch_size, dp.processes) == (32, 1)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("world_size", " 4", 4),
        ("bucket_cap_mb", "25", 25),
        ("bucket_cap_mb", "0.1", 0.1),
        ("bucket_cap_mb", "unset", None),
        ("bucket_cap_mb", "None", None),
        ("threads", "default", None),
        ("gradient_as_bucket_view", "True", True),
        ("gradient_as_bucket_view", "off", False),
        ("threads", "2", 2),
        ("model", "sleep:layers=2:mb=1", "sleep:layers=2:mb=1"),
        ("backend", "nccl", "nccl"),
        ("bytes", "64MiB", 64 << 20),
    ],
)
def test_values_as_typed(name: str, text: str, value: object) -> None:
    assert parse_value(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("wolrd_size", "2", "unknown axis 'wolrd_size'; did you mean 'world_size'?"),
        ("world_size", "two", "axis world_size: 'two' is not a number"),
        ("world_size", "1.5", "'1.5' is not a number"),
        ("world_size", "unset", "'unset' is not a number"),
        ("bucket_cap_mb", "nan", "'nan' is not a number"),
        ("bucket_cap_mb", "inf", "'inf' is not a number"),
        ("static_graph", "perhaps", "'perhaps' is not true or false"),
        ("bytes", "much", "axis bytes: 'much' is not a size"),
        ("backend", "nccll", "'nccll' is not known; did you mean 'nccl'?"),
    ],
)
def test_values_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_value(name, text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_fields_are_pytorchs_own_names() -> None:
    ddp = pytest.importorskip("torch.nn.parallel").DistributedDataParallel
    parameters = inspect.signature(ddp).parameters
    for name in DDP_FIELDS:
        assert name in parameters
        assert name in FIELD_NAMES
        # A case that says nothing is what torch does when told nothing; a newer torch has None
        # where it would rather be told by another name.
        assert parameters[name].default in (None, getattr(DEFAULT, name))
