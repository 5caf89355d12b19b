// The layout of a schedule: the layers, ranks and samples that its stages and micro-batches stand
// for. [algorithms.md §1, §3]
//
//   N    number of ranks
//   D    ranks per pipeline group; group g has ranks [g D, (g+1) D)
//   r_d  ranks per group of the schedule's device d
//   B_g  samples per group; group g trains on samples [g B_g, (g+1) B_g)
//   b    samples per micro-batch of a chain
//
// Within a group, device 0 takes the first r_0 ranks, device 1 the next r_1, and so on. A seating
// gives another order of the devices. All stages of a device are on the same ranks.
//
// Chains of one backbone divide the samples of a group. Micro-batch m of a chain in group g has the
// b samples from g B_g + first_sample + m b on. Each of a device's r ranks takes b / r consecutive
// samples of it. Chains of different backbones each see all of a group's samples.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_

#include <string>
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
  bool recompute = false;                // the forward pass keeps only its inputs
  std::vector<int> recompute_cuts = {};  // as Stage.recompute_cuts
};

struct ChainPlacement {
  int backbone = 0;  // index among the profile's backbones (BackboneComponent)
  int first_stage = 0;
  int num_stages = 1;
  int num_micro_batches = 1;
  int micro_batch_size = 1;  // b: samples of one micro-batch of one group
  int first_sample = 0;      // of its micro-batch 0, relative to the group's first sample
};

struct PipelineLayout {
  int num_devices = 1;        // N: ranks
  std::vector<int> replicas;  // r_d: ranks per pipeline group, by the schedule's device
  std::vector<int> seating;  // the schedule's devices in the order of their ranks; empty: 0, 1, ...
  std::vector<StagePlacement> stages;
  std::vector<ChainPlacement> chains;

  int devices_per_pipeline() const;  // D: the sum of replicas
  int num_groups() const { return num_devices / devices_per_pipeline(); }
  // Return the number of micro-batches of the first backbone, over all of its chains, and the
  // number of samples per micro-batch.
  int num_micro_batches() const;
  int micro_batch_size() const { return chains[0].micro_batch_size; }
  int samples_per_group() const { return num_micro_batches() * micro_batch_size(); }  // B_g
  int global_batch() const { return num_groups() * samples_per_group(); }
};

// The choices that a schedule leaves open.
struct LayoutOptions {
  int num_devices = 1;                           // N
  std::vector<int> replicas;                     // by device; empty: one rank per device
  std::vector<int> seating;                      // as PipelineLayout::seating
  std::vector<LayerRange> layers;                // by stage
  std::vector<int> micro_batch_sizes;            // by backbone; empty: one sample each
  std::vector<bool> recompute;                   // by stage; empty: no stage
  std::vector<std::vector<int>> recompute_cuts;  // by stage; empty: stages are one block each
};

// Returns the layout of a schedule. Chains of one backbone take consecutive samples, in chain
// order. InvalidArgument if a list has the wrong length, or if `seating` does not contain every
// device exactly once.
absl::StatusOr<PipelineLayout> MakeLayout(const Schedule& schedule, const LayoutOptions& options);

// A stage of a straight schedule (one chain, stage k on device k).
struct StraightStage {
  LayerRange layers;
  int replicas = 1;
};
// Returns the layout of a straight schedule.
PipelineLayout StraightLayout(int num_devices, int num_micro_batches, int micro_batch_size,
                              const std::vector<StraightStage>& stages);

// Returns InvalidArgument, with both values, if
//   - devices, stages, chains and samples do not divide evenly;
//   - the stages of a chain with gradients do not partition the layers of its backbone;
//   - the forward-only stages of a chain differ from those with gradients in layers or devices;
//   - chains of one backbone are cut differently, or hold the same layers on one device.
absl::Status CheckLayout(const PipelineLayout& layout, const CostModel& cost);

// Returns InvalidArgument, with both values, if the boundaries of a stage's blocks do not increase
// strictly inside its layers, or if it has any but does not recompute.
absl::Status CheckRecomputeCuts(const std::string& where, LayerRange layers, bool recompute,
                                const std::vector<int>& cuts);

// Returns InvalidArgument, with both values, if the layout does not belong to the schedule.
absl::Status CheckLayoutMatchesSchedule(const PipelineLayout& layout, const Schedule& schedule);

// Returns the component of the profile's backbone number `backbone`, or -1 if there are fewer.
int BackboneComponent(const CostModel& cost, int backbone);

// Convert between a rank and its position. `device` of a position is the schedule's.
RankPosition PositionOf(const PipelineLayout& layout, int rank);
int RankAt(const PipelineLayout& layout, const RankPosition& position);

// Returns the samples that rank number `index` of a device takes of a chain's micro-batch in a
// group.
SampleRange SamplesOf(const PipelineLayout& layout, int group, int chain, int device, int index,
                      int micro_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_LAYOUT_H_
