"""What was found after one fault."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.kinds import Fault


@dataclass
class Verdict:
    """None means that there was nothing to check, never that it was let pass."""

    fault: Fault
    injected: bool = False
    #: Injected or not, another sweep would change nothing.
    over: bool = False
    outcome_right: bool | None = None
    rank_right: bool | None = None
    phase_right: bool | None = None
    step_right: bool | None = None
    next_measured: bool | None = None
    readable: bool | None = None
    #: The processes that belong to the faulty case, and those of them that did not go.
    pids: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    #: From the fault until its case is in the journal, or until pytest has ended.
    seconds: float | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        checked = (
            self.outcome_right,
            self.rank_right,
            self.phase_right,
            self.step_right,
            self.next_measured,
            self.readable,
        )
        return (
            self.injected
            and not self.left
            and not self.problems
            and all(value is not False for value in checked)
        )

    def report(self, seed: int) -> str:
        """The mismatch in full, and how to see it again."""
        lines = [f"MISMATCH seed {seed}: {self.fault.describe()}", *self.problems]
        if not self.injected:
            lines.append("the fault did not happen")
        lines.append(f"again with: --seed {seed} --number {self.fault.number}")
        return "\n    ".join(line for problem in lines for line in problem.split("\n"))
