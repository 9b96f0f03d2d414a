"""Where a joint graph is cut into a forward and a backward.

    forward, backward = cut(joint_module, joint_inputs, num_fwd_outputs=1)

The one place that decides what is saved between the two. It is PyTorch's minimum cut: what is cheap
to compute again, pointwise operators above all, is not saved. What is done to the joint graph before
makes more of it cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .random_seeds import draw_from_seeds


def cut(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int, **others: object
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward of a joint graph, which it changes. ``others``: what AOTAutograd
    has to say to its partitioners."""
    draw_from_seeds(joint, num_fwd_outputs)
    return cut_with_eager_numbers(joint, inputs, num_fwd_outputs=num_fwd_outputs, **others)


def cut_with_eager_numbers(
    joint: fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int, **others: object
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The same, with PyTorch's random operators as they are (the option ``fallback_random``)."""
    return min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs, **others
    )
