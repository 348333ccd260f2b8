"""A prediction in sentences and cells, for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator

from reports import words
from reports.predict_cost import rate
from reports.predict_fit import ASSUMED_RESIDUAL
from reports.predict_report import WANTED, Line, PredictReport
from reports.predict_skew import most_ranks

HEADINGS = (
    "ranks",
    "link",
    "cap, MiB",
    "step",
    "95 % interval",
    "efficiency",
    "no overlap",
    "perfect",
    "USL",
    "measured",
    "beyond",
)
ABBREVIATIONS = {"ranks": "R", "link": "L", "buckets": "B"}


def title(report: PredictReport) -> str:
    base = report.base
    return (
        f"{report.workload.model}: predicted from {base.id}, measured on "
        f"{words.ranks(base.world_size)} ({report.workload.file})"
    )


def cap(value: float | None) -> str:
    return "unset" if value is None else f"{value:.3g}"


def cells(line: Line) -> list[str]:
    """In the order of HEADINGS."""
    one = line.prediction
    measured = words.BLANK
    if line.measured_s is not None:
        measured = (
            f"{words.seconds(line.measured_s)} ({words.change(one.step_s / line.measured_s)})"
        )
    return [
        str(one.wish.world_size),
        one.wish.link.name,
        cap(one.wish.bucket_cap_mb),
        words.seconds(one.step_s),
        words.between(one.low_s, one.high_s, words.seconds),
        words.percent(one.efficiency),
        words.seconds(one.no_overlap_s),
        words.seconds(one.perfect_overlap_s),
        words.seconds(line.usl_s),
        measured,
        "".join(ABBREVIATIONS[name] for name in line.beyond),
    ]


def facts(report: PredictReport) -> Iterator[str]:
    """What was measured, what it tells of the network, and what is assumed."""
    compute = report.base.compute
    yield (
        f"Without communication a step takes {words.seconds(compute.step_s)}: gradients "
        f"({words.size(compute.gradient_bytes)} of {len(compute.bytes)} parameters) are ready "
        f"from {words.seconds(compute.ready_s[0])} to {words.seconds(compute.ready_s[-1])}, "
        f"the backward pass ends at {words.seconds(compute.backward_end_s)}, the optimizer takes "
        f"{words.seconds(compute.optimizer_s)}."
    )
    yield from _network(report)
    errors = report.fit.errors
    if report.fit.residual is not None:
        yield (
            f"At the {len(errors)} cases it is fitted on it is off by "
            f"{words.percent(report.fit.residual)} (root mean square); in the intervals of others "
            f"it is {words.percent(report.fit.model_error)}, never taken for less than "
            f"{words.percent(ASSUMED_RESIDUAL)}."
        )
    elif errors:
        yield (
            f"Fitted on {words.plural(len(errors), 'case')}: too few to see how far it is off; "
            f"{words.percent(ASSUMED_RESIDUAL)} is assumed in the intervals."
        )
    else:
        yield "No case of several ranks was measured: everything about the network is assumed."
    yield from _skew(report)


def _network(report: PredictReport) -> Iterator[str]:
    fitted = report.fit
    network, told = fitted.network, fitted.told

    def origin(name: str) -> str:
        if told[name]:
            return "fitted"
        if fitted.seen is not None and name != "contention":
            return "as all-reduces alone have it"
        if not fitted.errors:
            return "assumed: nothing was measured that tells"
        return "partly assumed: what was measured tells little of it"

    if fitted.seen is not None:
        latency = words.seconds(fitted.seen.latency_s) if fitted.seen.latency_s else "not told"
        sizes = words.joined([str(size) for size in fitted.seen.world_sizes])
        yield (
            f"All-reduces alone, measured on {sizes} ranks, have "
            f"{words.size(fitted.seen.bytes_per_s)}/s and cost "
            f"{words.seconds(fitted.seen.queue_s)} each; the latency of a message is {latency}."
        )
    share = fitted.share(network)
    if share is not None and fitted.link is not None:
        yield (
            f"The measured link has {fitted.link.name}; payload gets {words.percent(share)} of it "
            f"({origin('bandwidth')})."
        )
    elif fitted.errors:
        yield (
            f"The measured link is not stated (--measured-link); payload got "
            f"{words.size(network.bytes_per_s)}/s on it ({origin('bandwidth')}). Of the links "
            f"asked for payload is assumed to get {words.percent(report.predictor.assumed_share)}."
        )
    yield (
        f"Beside its bytes a bucket costs {words.seconds(network.queue_s)} ({origin('queue')}). "
        f"While something is reduced computing takes {words.change(1 + network.contention)} "
        f"({origin('contention')}). "
        f"{words.plural(fitted.workers, 'bucket')} at a time "
        f"{'share' if fitted.workers > 1 else 'has'} the link."
    )
    if any(link.latency_s is None for link in report.asked.links):
        if fitted.latency_s:
            yield "The latency of a link that states none is taken to be the measured one."
        else:
            yield "The latency of a link that states none is taken as 0; give it as in 25Gbit,20us."
    if report.asked.compression != 1:
        yield (
            f"Gradients are compressed to {words.percent(report.asked.compression)}; what "
            "compressing costs is not in it."
        )


def _skew(report: PredictReport) -> Iterator[str]:
    steps = report.base.silent_step_s
    if not steps:
        yield "How much ranks differ was not recorded: more ranks are taken to be no slower."
        return
    most = most_ranks(steps)
    waits = [
        f"{words.seconds(report.predictor.compute(size)[1])} at {size}"
        for size in dict.fromkeys(report.asked.world_sizes)
    ]
    yield (
        f"For the slowest of more ranks, taken as independent, is added: {', '.join(waits)}"
        + (
            f" (from {len(steps)} steps: beyond {most} ranks the slowest that was measured)."
            if max(report.asked.world_sizes) > most
            else f" (from {len(steps)} steps)."
        )
    )


def range_of_data(report: PredictReport) -> str:
    sizes = words.joined([str(size) for size in report.sizes_measured])
    small, large = report.bucket_range
    link = report.fit.link.name if report.fit.link else "a link that is not stated"
    return (
        f"Measured were {sizes} ranks, {link}, buckets of {words.size(small)} to "
        f"{words.size(large)}. Beyond these is extrapolation: R ranks, L link, B buckets."
    )


def baselines(report: PredictReport) -> str:
    law = report.law
    said = (
        law
        if isinstance(law, str)
        else (
            f"contention {law.contention:.3g}, coherency {law.coherency:.3g}; it knows no network"
        )
    )
    return (
        "Baselines: no overlap (all buckets after the backward pass), perfect (the longer of "
        f"computing and communicating), USL (Universal Scalability Law: {said}). Efficiency is "
        "over one rank that communicates with nobody."
    )


def optima(report: PredictReport) -> Iterator[str]:
    """The best cap, and the network that is fast enough, for every world size."""
    asked = report.asked
    for link in asked.links:
        found = []
        for size in asked.world_sizes:
            if size == 1:
                continue
            best, step_s = report.best_cap(size, link)
            unset_s = report.step_s(size, link, None)
            gain = words.change(step_s / unset_s)
            found.append(f"{best:.2g}{words.SPACE}MiB at {size} ranks ({gain} against unset)")
        if found:
            yield f"Best bucket_cap_mb over {link.name}: {words.joined(found)}."
    for latency_s in dict.fromkeys(one.latency_s for one in asked.links):
        own = next(one for one in asked.links if one.latency_s == latency_s)
        found = []
        for size in asked.world_sizes:
            if size == 1:
                continue
            needed = report.rate_needed(size, own, asked.caps_mb[0])
            found.append(f"{rate(needed)} at {size} ranks" if needed else f"none at {size} ranks")
        if found:
            latency = "" if latency_s is None else f" at a latency of {words.seconds(latency_s)}"
            yield (
                f"For {WANTED * 100:.0f}{words.SPACE}% efficiency "
                f"(bucket_cap_mb {cap(asked.caps_mb[0])}) the network must have{latency}: "
                f"{words.joined(found)}."
            )
