from __future__ import annotations

from tests.faults.verdict import Verdict


def why_no_mount():
    return None


def run(fault, folder):
    return Verdict(fault)
