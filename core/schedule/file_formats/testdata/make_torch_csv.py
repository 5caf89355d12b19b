"""Writes the schedules of torch.distributed.pipelining in this folder, and loads files written by ours.

  python3 make_torch_csv.py                     writes torch_*.csv beside this file
  python3 make_torch_csv.py --load FILE ...     loads each as torch does, and dry-runs it there; compute_comms if
                                                named *_comms.csv

No process group is needed: the schedules are built on stages that only count.
"""

import contextlib
import io
import os
import sys

from torch.distributed.pipelining import schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping


class CountedStage(schedules._PipelineStageBase):
    def __init__(self, index, num_stages, rank, group_size):
        self.num_stages = num_stages
        self.stage_index = index
        self.group_size = group_size
        self.group_rank = rank
        self.group = None
        self.submod = None
        self.stage_index_to_group_rank = {}
        self.has_backward = True

    def _refuse(self, *args, **kwargs):
        raise NotImplementedError("this stage only counts")

    _create_grad_recv_info = _prepare_backward_infra = _prepare_forward_infra = _refuse


def build(name, ranks, stages_per_rank, micro_batches):
    num_stages = ranks * stages_per_rank
    # The class decides which stages lie on which rank; each schedule object is built as rank 0.
    style = "v" if name in ("ZBVZeroBubble", "DualPipeV") else "loop"
    placed = generate_stage_to_rank_mapping(ranks, num_stages, style=style)
    stages = [CountedStage(s, num_stages, 0, ranks) for s in range(num_stages) if placed[s] == 0]
    schedule_class = schedules.get_schedule_class(name)
    return schedule_class(stages, micro_batches, loss_fn=lambda output, target: output)


def write():
    here = os.path.dirname(os.path.abspath(__file__))
    for name, ranks, stages_per_rank, micro_batches in (
        ("Interleaved1F1B", 4, 2, 8),
        ("InterleavedZeroBubble", 4, 2, 8),
        ("ZBVZeroBubble", 4, 2, 8),
        ("DualPipeV", 4, 2, 8),
        ("LoopedBFS", 2, 3, 4),
    ):
        schedule = build(name, ranks, stages_per_rank, micro_batches)
        for suffix, mode in (("", "compute_only"), ("_comms", "compute_comms")):
            schedule._dump_csv(os.path.join(here, f"torch_{name}{suffix}.csv"), format=mode)


# What torch adds for FSDP and its dry run does not know.
OF_FSDP = (schedules.UNSHARD, schedules.RESHARD, schedules.REDUCE_GRAD, schedules.WAIT_REDUCE_GRAD)


def load(path):
    with open(path) as file:
        rows = [line.rstrip("\r\n").split(",") for line in file]
    actions = [[schedules._Action.from_str(cell) for cell in row] for row in rows]
    placed = {a.stage_index: rank for rank, row in enumerate(actions) for a in row if a}
    num_stages = 1 + max(placed)
    micro_batches = 1 + max(a.microbatch_index or 0 for row in actions for a in row if a)
    # Only the counts and places matter; the order is then replaced by the file's.
    stages = [CountedStage(s, num_stages, 0, len(rows)) for s in sorted(placed) if placed[s] == 0]
    schedule = schedules._PipelineScheduleRuntime(
        stages, micro_batches, loss_fn=lambda output, target: output
    )
    schedule.stage_index_to_group_rank = placed
    mode = "compute_comms" if path.endswith("_comms.csv") else "compute_only"
    schedule.pipeline_order = {}
    schedule._load_csv(path, format=mode)
    order = {
        rank: [a for a in row if a is None or a.computation_type not in OF_FSDP]
        for rank, row in schedule.pipeline_order_with_comms.items()
    }
    with contextlib.redirect_stdout(io.StringIO()):
        schedules._simulate_comms_compute(order, lambda stage: placed[stage], num_stages)
    print(f"{path}: {mode}, {len(rows)} ranks, {num_stages} stages, {micro_batches} micro-batches")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--load":
        for argument in sys.argv[2:]:
            load(argument)
    else:
        write()
