"""Ctrl-C, as real signals to this process."""

from __future__ import annotations

import signal
import threading

import pytest

from bench.interrupt import Interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_a_measurement(number: signal.Signals) -> None:
    interrupt = Interrupt()
    with interrupt.listening(), pytest.raises(KeyboardInterrupt), interrupt.measuring():
        signal.raise_signal(number)
    assert interrupt.asked


def test_the_first_signal_interrupts_nothing_else() -> None:
    interrupt = Interrupt()
    with interrupt.listening():
        signal.raise_signal(signal.SIGINT)  # a journal that is being written is written whole
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt), interrupt.measuring():
            raise AssertionError("nothing more is measured")


def test_the_second_signal_interrupts_anything() -> None:
    interrupt = Interrupt()
    with interrupt.listening():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_afterwards_signals_are_what_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt().listening():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_nothing_is_changed() -> None:
    worked = []

    def work() -> None:
        with Interrupt().listening():
            worked.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert worked == [signal.getsignal(signal.SIGINT)]
