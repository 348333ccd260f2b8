from __future__ import annotations

from pathlib import Path

import pytest

from bench.token_file import made_token, read_token
from bench.wire import TOKEN_VARIABLE

LONG = "0123456789abcdef" * 2


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    made = made_token(str(file))
    assert len(made) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert made_token(str(file)) == made == read_token(str(file), {})


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(LONG)
    file.chmod(0o640)
    with pytest.raises(ValueError, match=f"can be read by others; .* chmod 600 {file}"):
        read_token(str(file), {})
    file.chmod(0o600)
    assert read_token(str(file), {}) == LONG


def test_the_file_before_the_environment_and_one_where_the_other_is_not(tmp_path: Path) -> None:
    file = tmp_path / "token"
    environment = {TOKEN_VARIABLE: "e" * 32}
    assert read_token(None, environment) == "e" * 32
    assert read_token(str(file), environment) == "e" * 32  # the file is of another host
    made = made_token(str(file))
    assert read_token(str(file), environment) == made


def test_no_token_or_none_to_speak_of(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no token: set LOCKSTEP_TOKEN .* --token-file"):
        read_token(None, {})
    with pytest.raises(ValueError, match="No such file"):
        read_token(str(tmp_path / "token"), {})
    with pytest.raises(ValueError, match="LOCKSTEP_TOKEN holds no token: at least 16"):
        read_token(None, {TOKEN_VARIABLE: "secret"})
    with pytest.raises(ValueError, match="No such file or directory"):
        made_token(str(tmp_path / "nowhere" / "token"))
