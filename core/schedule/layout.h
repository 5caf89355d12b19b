// Where the backbone runs: stages, ranks and samples.
//
// Pipeline group g holds ranks [g D, (g+1) D); within it stage 0 takes the first r_0, stage 1 the
// next r_1, and so on. Group g trains samples [g B_g, (g+1) B_g), micro-batch m of it [g B_g + m b,
// + b), and a stage's r ranks take b / r consecutive samples each. [algorithms.md §1]
#ifndef DPIPE_CORE_SCHEDULE_LAYOUT_H_
#define DPIPE_CORE_SCHEDULE_LAYOUT_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"

namespace dpipe {

struct StagePlacement {
  LayerRange layers;  // of the backbone
  int replicas = 1;   // r_s: ranks of one pipeline group
};

struct PipelineLayout {
  int num_devices = 1;           // N
  int devices_per_pipeline = 1;  // D = sum of replicas
  int num_micro_batches = 1;     // M
  int micro_batch_size = 1;      // b: samples of one micro-batch of one group
  std::vector<StagePlacement> stages;

  int num_groups() const { return num_devices / devices_per_pipeline; }
  int samples_per_group() const { return num_micro_batches * micro_batch_size; }
  int global_batch() const { return num_groups() * samples_per_group(); }
};

// InvalidArgument, with both values, if devices, stages and samples do not divide, or the stages
// are not a partition of the backbone.
absl::Status CheckLayout(const PipelineLayout& layout, const CostModel& cost);

// A rank's place: number `index` (0 .. replicas-1) of `stage` in `group`.
struct Seat {
  int group = 0;
  int stage = 0;
  int index = 0;
};
Seat SeatOf(const PipelineLayout& layout, int rank);
int RankAt(const PipelineLayout& layout, const Seat& seat);

// The samples of `micro_batch` that rank number `index` of a stage takes in a group.
SampleRange SamplesOf(const PipelineLayout& layout, int group, int stage, int index,
                      int micro_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LAYOUT_H_
