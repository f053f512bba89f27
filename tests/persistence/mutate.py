"""Load mutated copies of a model file with 100 MB of memory to spare: ``python mutate.py FILE COUNT [sealed]``.

Prints how often each thing was said. Ends with a traceback at the first outcome that is neither a `ModelFileError` nor,
for a copy that is no different or whose checksum was made right again (``sealed``), a model.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith
from oddsmith.errors import ModelFileError

SPARE = 100_000_000
HOSTILE: list[Any] = [
    *(None, True, -1, 0, 2**31, 2**63, 10**40, 1e308, "", "O", "|O8", "<f8", "<U999999999", "<M8[ns]", "C", "F", "é"),
    *([], {}, [[]], [2**40], [2**62, 2**62], [0, 2**62], [-1], [1.5], {"tuple": 1}, {"dict": [[[], 1]]}, {"dict": [1]}),
    *({"same": 0}, {"same": 10**9}, {"same": -1}, {"same": "x"}, {"array": "coef_"}, {"array": "nowhere"}),
    *(
        {"type": "os.system", "fields": {"command": "false"}},
        {"type": "Popen", "fields": {}},
        {"type": [], "fields": 1},
    ),
    *({"type": "LogisticRegression", "fields": {"predict": 1}}, {"type": "Trace", "fields": {"__class__": "x"}}),
    *({"type": "Implementation", "fields": {}}, {"member": "__init__", "type": "Implementation"}, {"float": "1e999"}),
    *({"member": "mro", "type": "Certificate"}, {"scalar": "00" * 8, "dtype": "|O8"}, {"scalar": "zz", "dtype": "<f8"}),
    *({"array": "coef_", "dtype": "<f8", "shape": [2**60], "order": "C"}, {"bytes": "0"}, {"date": "2020-13-01"}),
    *({"texts": "coef_", "lengths": "coef_", "shape": [2]}, {"objects": [1, 2], "shape": [2**40]}, {"unheard": 1}),
    *({"generator": {"dict": [["bit_generator", "MT19937"]]}}, {"generator": {"dict": [["bit_generator", "PCG64"]]}}),
    *(
        {"timedelta": [10**20, 0, 0]},
        {"complex": [1, 2, 3]},
        {"set": [{"dict": []}]},
        json.loads("[" * 400 + "]" * 400),
    ),
]


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a copy with some bytes changed, lost, added or exchanged."""
    n = len(data)
    i, j = sorted(rng.integers(0, n + 1, size=2).tolist())
    noise = rng.bytes(int(rng.integers(1, 40)))
    at = min(i, n - 1)
    one = bytes([data[at] ^ (1 << int(rng.integers(8)))])
    return [
        data[:at] + one + data[at + 1 :],  # a bit
        data[:at] + noise[:1] + data[at + 1 :],  # a byte
        data[:i],  # cut short
        data[:i] + data[j:],  # a part lost
        data[:i] + noise + data[i:],  # bytes put in
        data + noise,  # bytes added
        data[:i] + bytes(j - i) + data[j:],  # a part zero
        data[:j] + data[i:j] + data[j:],  # a part twice
        data[i:] + data[:i],  # turned round
        int(rng.integers(0, 2**63)).to_bytes(8, "little") + data[8:],  # another length of the header
        int(rng.integers(0, 2 * n)).to_bytes(8, "little") + data[8:],
        data[:i] + noise + data[i + len(noise) :],  # bytes written over
        noise,  # another file
        data[: int(rng.integers(0, 20))],
    ][int(rng.integers(14))]


def seal(header: dict[str, Any], document: dict[str, Any] | str, body: bytes) -> bytes:
    """Return a file with the checksum that it should have; a document that is text has no checksum yet."""
    inside = document if isinstance(document, str) else json.dumps(document)
    text = '{"checksum":"' + "0" * 64 + '",' + inside.removeprefix("{")
    coded = json.dumps({"__metadata__": {"oddsmith": text}, **header}).encode()
    data = len(coded).to_bytes(8, "little") + coded + body
    return data.replace(b"0" * 64, hashlib.sha256(data).hexdigest().encode(), 1)


def crafted(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a copy whose JSON says something else in one to three places, with the right checksum."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    document = json.loads(header.pop("__metadata__")["oddsmith"])
    del document["checksum"]
    places = [document, header, header, *(document["model"]["fields"] for _ in range(7))]
    for _ in range(int(rng.integers(1, 3))):
        parent: Any = places[int(rng.integers(len(places)))]
        while True:
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            if not keys:
                break
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(parent[key], dict | list) and len(parent[key]) and rng.random() < 0.85:
                parent = parent[key]
                continue
            if rng.random() < 0.2:
                del parent[key]
            else:
                parent[key] = deepcopy(HOSTILE[int(rng.integers(len(HOSTILE)))])
            break
    return seal(header, document, data[8 + length :])


def main(path: Path, count: int, sealed: bool) -> None:
    import resource

    data = path.read_bytes()
    oddsmith.load(path)  # everything is imported now
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, used + SPARE))
    try:
        bytearray(SPARE + SPARE // 10)
    except MemoryError:
        pass  # as it should be
    else:
        raise AssertionError("The limit is none.")
    rng = np.random.default_rng(0)
    outcomes: Counter[str] = Counter()
    for i in range(count):
        copy = path.with_name(f"copy-{i}.odds")  # a new name each: writing over a file waits for the disk
        mutated = (crafted if sealed else damaged)(data, rng)
        copy.write_bytes(mutated)
        try:
            oddsmith.load(copy)
        except ModelFileError as error:
            said = str(error).split("cannot be loaded. ")[1]
            outcomes[re.sub(r"\d+|'.*?'", "…", said)[:27]] += 1
        else:
            assert sealed or mutated == data, "A damaged file was loaded."
            outcomes["loaded"] += 1
        copy.unlink()
    print(json.dumps(outcomes, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "sealed" in sys.argv)
