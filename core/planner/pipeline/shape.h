// The numbers that fix a pipeline's shape: which there are, and which of them divide.
#ifndef DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_
#define DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dpipe {

// What the ranks that hold the same stage divide among them instead of keeping copies: nothing, the
// optimizer's state (ZeRO-1), or weights and gradients, too (ZeRO-3).
enum class Sharding { kNone, kZero1, kZero3 };

// "none", "zero1", "zero3".
const char* NameOf(Sharding sharding);

// N devices in groups of D; a schedule over S devices, each of them D / S ranks; a group's samples
// in M micro-batches. A straight schedule has a stage on each of its devices, others have several.
struct PipelineShape {
  std::string schedule;
  int num_devices = 1;           // N
  int devices_per_pipeline = 1;  // D
  int num_stages = 1;            // S: the pipeline's depth in devices
  int num_micro_batches = 1;     // M
  int global_batch = 1;          // B
  int stages_per_device = 0;     // of schedules that leave it open; 0: their default
  int peak_limit = 0;            // ScheduleRequest.peak_limit
  // The last so many of the schedule's devices alone run the frozen components whose weights take
  // much of a device's memory; 0: all do.
  int frozen_hosts = 0;
  Sharding sharding = Sharding::kNone;
  std::string partitioner = {};  // empty: the strategy's

  int num_groups() const { return num_devices / devices_per_pipeline; }
  int replicas() const { return devices_per_pipeline / num_stages; }
  int samples_per_group() const { return global_batch / num_groups(); }
  int micro_batch_size() const { return samples_per_group() / num_micro_batches; }
  int local_batch() const { return micro_batch_size() / replicas(); }
  // The ranks that hold the same stage, over all groups.
  int stage_ranks() const { return replicas() * num_groups(); }
  bool shards_state() const { return sharding != Sharding::kNone; }
  // The parts that a stage's moments are divided into, at least.
  int state_shards() const { return shards_state() ? stage_ranks() : 1; }
  // Whether a device of the schedule is one of those.
  bool IsFrozenHost(int device) const {
    return frozen_hosts == 0 || device >= num_stages - frozen_hosts;
  }
};

// What is asked for; 0: any.
struct ShapeRequest {
  std::string schedule;  // of one device, "single"; any other two or more, unless asked for one
  int num_devices = 1;
  int global_batch = 1;
  int num_stages = 0;
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  int stages_per_device = 0;
  int frozen_quantum = 1;  // a group's samples are a multiple of it
  // Whether each stage must lie on one rank, as updates that are never shared ask.
  bool one_rank_per_stage = false;
  // Where neither number nor size is given: of more micro-batches than so many times S, which hide
  // little and make kernels small but need less memory, only numbers that are at least 1.5 times
  // the one before are looked at, and the largest; 0: all.
  int dense_micro_batches_per_stage = 0;
};

// InvalidArgument, naming the number and its value, for a batch below 1 or above 2^24 or another
// number below 0.
absl::Status CheckRequest(const ShapeRequest& request);

// InvalidArgument, one sentence with both values, for what does not divide or the schedule cannot
// do.
absl::Status CheckShape(const PipelineShape& shape, const ShapeRequest& request);

// Every shape that passes CheckShape, by S, then M, then D. `why` receives the first reason for
// leaving one out, OK if none was.
std::vector<PipelineShape> EnumerateShapes(const ShapeRequest& request, absl::Status* why);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_
