"""The simulator accepts and rejects the same forms of instructions as ptxas."""

import os
import re
import shutil
from pathlib import Path

import forms
import pytest

import gpuopt
from gpuopt import _core

# Forms that ptxas accepts and the simulator lacks: it may reject them by name.
LACKS = re.compile(
    r"v(add|sub|absdiff)4\.(u32\.(u32\.)?s32|s32\.(s32\.)?u32)|v(add|sub)4\.[us.32]+\.add "
    r"|redux\.sync\.(min|max)\.f32 |setp\.\w+\.(\w+\.)*b?f16x2 %p0, |st\.(\w+\.)*param[.:]"
)
# Forms that NVRTC 13.5 emits and an older ptxas refuses.
NEWER = re.compile(r"(ld|st)\.volatile\.local\.")


def find_ptxas():
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [str(Path(root) / "bin") for root in roots if root]
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(places))


def refused_by_simulator(every, target):
    reasons = {}
    for start in range(0, len(every), 5000):
        part = every[start : start + 5000]
        text = forms.HEADER.format(target) + "\n".join(
            f".visible .entry k{i}()\n{{\n{forms.REGISTERS}{forms.MORE}\n{name} {given};\nret;\n}}"
            for i, (name, given) in enumerate(part)
        )
        device = {75: "sim:t4", 80: "sim:a100", 90: "sim:h200"}.get(target, "sim:b200")
        module = _core.Module(text.encode() + b"\0", device)
        for i in range(len(part)):
            try:
                module.kernel(f"k{i}")
            except gpuopt.PTXError as error:
                reasons[start + i] = str(error)
                assert error.line == 3 + 6 * i + 4, error
    return reasons


@pytest.mark.parametrize("target", [75, 80, 90, 100, "100a"])
def test_every_form_agrees_with_ptxas(target, tmp_path):
    ptxas = find_ptxas()
    if not ptxas:
        pytest.skip("no ptxas")
    every = forms.forms()
    if target != 90:  # what another target lacks or has
        every = [
            each
            for each in every
            if re.search(
                r"bf16|relu|NaN|x2|redux|cluster|tanh|ex2|abs|f16|satfinite|tf32|pack", each[0]
            )
        ]
    theirs = forms.refused_by_ptxas(ptxas, every, target, tmp_path)
    ours = refused_by_simulator(every, target)
    assert 0.01 * len(every) < len(every) - len(theirs) < 0.5 * len(every)
    shown = [" ".join(each) for each in every]
    lax = [f"{shown[i]}: {why}" for i, why in theirs.items() if i not in ours]
    lax = [each for each in lax if not NEWER.match(each)]
    assert not lax, f"{len(lax)} forms that ptxas refuses: {lax[:20]}"
    strict = [f"{shown[i]}: {why}" for i, why in ours.items() if i not in theirs]
    unknown = [each for each in strict if not LACKS.match(each)]
    assert not unknown, f"{len(unknown)} forms that ptxas accepts: {unknown[:20]}"
