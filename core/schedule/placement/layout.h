// Where a schedule runs: layers, ranks and samples.
//
// Pipeline group g holds ranks [g D, (g+1) D); within it the schedule's device 0 takes the first
// r_0, device 1 the next r_1, and so on (or the devices come in another order, where unlike ones
// are seated), and all stages of a device lie on the same ranks. Group g
// trains samples [g B_g, (g+1) B_g). Chains of one backbone divide them: micro-batch m of a chain
// is [g B_g + first + m b, + b), of which each of a device's r ranks takes b / r consecutive
// samples. Chains of different backbones each see all of a group's samples. [algorithms.md §1, §3]
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/schedule/placement/rank_position.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// One stage of the schedule.
struct StagePlacement {
  LayerRange layers;  // of the chain's backbone
  int chain = 0;
  int device = 0;  // of the schedule
  bool forward_only = false;
  bool recompute = false;  // the forward pass keeps its inputs alone
};

struct ChainPlacement {
  int backbone = 0;  // among the profile's backbones, in their order (BackboneComponent)
  int first_stage = 0;
  int num_stages = 1;
  int num_micro_batches = 1;
  int micro_batch_size = 1;  // b: samples of one micro-batch of one group
  int first_sample = 0;      // of its micro-batch 0, counted from the group's first
};

struct PipelineLayout {
  int num_devices = 1;        // N: ranks
  std::vector<int> replicas;  // r_d: ranks of one pipeline group, by the schedule's device
  std::vector<int> seating;  // the schedule's devices in the order of their ranks; empty: 0, 1, ...
  std::vector<StagePlacement> stages;
  std::vector<ChainPlacement> chains;

  int devices_per_pipeline() const;  // D: the sum of replicas
  int num_groups() const { return num_devices / devices_per_pipeline(); }
  // The micro-batches of the first backbone, over its chains, and the samples of one of them.
  int num_micro_batches() const;
  int micro_batch_size() const { return chains[0].micro_batch_size; }
  int samples_per_group() const { return num_micro_batches() * micro_batch_size(); }  // B_g
  int global_batch() const { return num_groups() * samples_per_group(); }
};

// What a schedule leaves open.
struct LayoutOptions {
  int num_devices = 1;                 // N
  std::vector<int> replicas;           // by device; empty: one rank each
  std::vector<int> seating;            // PipelineLayout.seating
  std::vector<LayerRange> layers;      // by stage
  std::vector<int> micro_batch_sizes;  // by backbone; empty: one sample
  std::vector<bool> recompute;         // by stage; empty: nowhere
};

// Chains of one backbone take consecutive samples, in their order. InvalidArgument if a list is of
// another length than what it is by, or `seating` does not name every device once.
absl::StatusOr<PipelineLayout> MakeLayout(const Schedule& schedule, const LayoutOptions& options);

// For a straight schedule (one chain, stage k on device k).
struct StraightStage {
  LayerRange layers;
  int replicas = 1;
};
PipelineLayout StraightLayout(int num_devices, int num_micro_batches, int micro_batch_size,
                              const std::vector<StraightStage>& stages);

// InvalidArgument, with both values, if devices, stages, chains and samples do not divide, the
// gradient-carrying stages of a chain are not a partition of its backbone, forward-only ones differ
// from them, or chains of a backbone are cut differently or hold the same layers on one device.
absl::Status CheckLayout(const PipelineLayout& layout, const CostModel& cost);

// InvalidArgument, with both values, if the layout is one of another schedule.
absl::Status CheckFit(const PipelineLayout& layout, const Schedule& schedule);

// The component that is number `backbone` of the profile's backbones; -1 if there are fewer.
int BackboneComponent(const CostModel& cost, int backbone);

// `device` is the schedule's.
RankPosition PositionOf(const PipelineLayout& layout, int rank);
int RankAt(const PipelineLayout& layout, const RankPosition& position);

// The samples of `micro_batch` of a chain that rank number `index` of a device takes in a group.
SampleRange SamplesOf(const PipelineLayout& layout, int group, int chain, int device, int index,
                      int micro_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_
