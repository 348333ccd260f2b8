"""Names that try to be more than names, and files in which every name is one of them."""

from __future__ import annotations

import copy
from typing import Any

HOSTILE = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    '"><svg/onload=window.pwned=1>',
    "' onmouseover='window.pwned=1' x='",
    "javascript:window.pwned=1",
    "</style><script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<style>*{display:none}</style>",
    "x;background:url(http://example.invalid/x.png)",
    "]]><script>window.pwned=1</script>",
    "<!-- <script>",
    "</table></section></main>",
    "{{ 7*7 }}{% raw %}",
    "${7*7}`",
    "\u202egnp.exe",
    "a\x00b",
    '=HYPERLINK("http://example.invalid")',
    "&lt;b&gt;&amp;amp;",
    "a\u2028b",
    "http://example.invalid/x.png",
    "L" * 3000,
)


def as_shown(text: str) -> str:
    """What a page makes of it: a sign in place of what no page can hold, or turns words round."""
    return text.replace("\x00", "\ufffd").replace("\u202e", "\ufffd")


def hostile(document: dict[str, Any]) -> dict[str, Any]:
    """Every place of the file that is a name, a reason or a version, with something active."""
    document = copy.deepcopy(document)
    for n, one in enumerate(document["benchmarks"]):
        text = HOSTILE[n % len(HOSTILE)]
        one["name"] = one["group"] = one["extra_info"]["id"] = text
        fields = one["extra_info"]["case"]
        fields["model"] = fields["init_method"] = fields["data"] = text
        fields[text] = {text: [text]}
        one["extra_info"]["result"] |= {"warnings": [text], "label": text}
        for launch in one["extra_info"]["result"]["launches"]:
            launch["checks"] |= {"notes": [text], "parameters_equal": False}
            for rank in launch["ranks"]:
                rank["host"] = rank["device_name"] = rank["software"]["torch"] = text
                rank["communication_note"] = rank["memory"]["kind"] = text
    own = document["lockstep"]
    own["machine"] = own["machine"] | {"host": HOSTILE[0], "cpu": HOSTILE[1], "os": HOSTILE[14]}
    own["machine"]["environment"] = dict(zip(HOSTILE, reversed(HOSTILE), strict=True))
    own["machine"]["gpus"] = [{"name": text} for text in HOSTILE]
    own["interpreters"] = {text: {"torch": text, "torchvision": text} for text in HOSTILE[:3]}
    own["settings"] |= {"command": HOSTILE[2], "matrix": HOSTILE[5], HOSTILE[3]: HOSTILE[4]}
    own["warnings"] = list(HOSTILE)
    for n, text in enumerate(HOSTILE):
        ended = copy.deepcopy(own["outcomes"][-1])
        ended |= dict.fromkeys(("id", "reason", "rerun"), text)
        ended["outcome"] = text if n % 2 else "failed"
        failure = dict.fromkeys(("phase", "type", "message", "traceback", "host"), text)
        own["outcomes"].append(ended | {"failure": failure})
    return document
