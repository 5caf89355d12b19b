// The numbers that define a pipeline's shape, and which of them divide.
#ifndef DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_
#define DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dpipe {

// What the ranks that hold the same stage divide among themselves instead of keeping copies:
// nothing, the optimizer's state (ZeRO-1), or weights and gradients too (ZeRO-3).
enum class Sharding { kNone, kZero1, kZero3 };

// Returns "none", "zero1" or "zero3".
const char* NameOf(Sharding sharding);

// N devices in groups of D; a schedule over S devices, each of D / S ranks; a group's samples in M
// micro-batches. A straight schedule has one stage on each device, others have several.
struct PipelineShape {
  std::string schedule;
  int num_devices = 1;           // N
  int devices_per_pipeline = 1;  // D
  int num_stages = 1;            // S: the pipeline's depth in devices
  int num_micro_batches = 1;     // M
  int global_batch = 1;          // B
  int stages_per_device = 0;     // if the schedule leaves it open; 0: its default
  int peak_limit = 0;            // ScheduleRequest.peak_limit
  // Number of schedule devices, counted from the last, that run the frozen components whose weights
  // take much of a device's memory. 0: all run them.
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
  // The minimum number of parts that a stage's moments are divided into.
  int state_shards() const { return shards_state() ? stage_ranks() : 1; }
  // True if a device of the schedule runs those frozen components.
  bool IsFrozenHost(int device) const {
    return frozen_hosts == 0 || device >= num_stages - frozen_hosts;
  }
};

// What is requested; 0: any.
struct ShapeRequest {
  std::string
      schedule;  // "single" has one device; any other two or more, unless one stage is requested
  int num_devices = 1;
  int global_batch = 1;
  int num_stages = 0;
  int num_micro_batches = 0;
  int micro_batch_size = 0;
  int devices_per_pipeline = 0;
  int stages_per_device = 0;
  int frozen_quantum = 1;  // a group's samples must be a multiple of it
  // True if each stage must be on one rank, as updates that are never synchronised require.
  bool one_rank_per_stage = false;
  // Thins out M if neither its number nor its size is given. More than this many micro-batches per
  // stage hide little and make kernels small, but need less memory: of those, only numbers at least
  // 1.5 times the previous one are considered, and the largest. 0: all.
  int dense_micro_batches_per_stage = 0;
};

// Returns InvalidArgument, naming the number and its value, if the batch is below 1 or above 2^24
// samples, or another number is below 0.
absl::Status CheckRequest(const ShapeRequest& request);

// Returns InvalidArgument, one sentence with both values, if a number does not divide or the
// schedule does not support the shape.
absl::Status CheckShape(const PipelineShape& shape, const ShapeRequest& request);

// Returns every shape that passes CheckShape, by S, then M, then D. `why` receives the first reason
// for leaving one out, OK if none was.
std::vector<PipelineShape> EnumerateShapes(const ShapeRequest& request, absl::Status* why);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PIPELINE_SHAPE_H_
