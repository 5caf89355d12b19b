// From a partition and a schedule to a Plan: every instruction and message of every device.
//
// Ranks: pipeline group g holds ranks [g D, (g+1) D); within it stage 0 takes the first r_0, stage
// 1 the next r_1, and so on. Group g trains samples [g B_g, (g+1) B_g), micro-batch m of it [g B_g
// + m b, + b), and a stage's r ranks take b / r consecutive samples each. Where neighbouring stages
// are replicated differently, a message carries the common part of two ranks' samples.
//
// Messages: a SEND stands right after the pass that makes its data; a RECV stands up to
// `recv_lookahead` slots of the schedule before the pass that needs it, so that the transfer
// overlaps the slots in between. Only orders that pass the deadlock check of rendezvous.h are made:
// where the lookahead breaks it, only activations are received early, or nothing.
#ifndef DPIPE_CORE_SCHEDULE_LOWER_H_
#define DPIPE_CORE_SCHEDULE_LOWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct StagePlacement {
  LayerRange layers;  // of the backbone
  int replicas = 1;   // r_s: ranks of one pipeline group
};

// Where the backbone runs. The number of pipeline groups is num_devices / devices_per_pipeline.
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

enum class FrozenPolicy {
  kFirst,   // before the pipeline, a group's samples spread evenly over its devices
  kFill,    // where FillItems say
  kCached,  // loaded: LOAD_BATCH of the backbone by whoever reads frozen outputs
};

enum class SyncPolicy {
  kBucketed,  // each bucket is reduced as soon as its gradients are complete
  kEnd,       // one reduction after the last backward pass
};

// One piece of frozen work that the planner has placed.
struct FillItem {
  int rank = 0;
  // Stands right before the rank's `position`-th compute instruction (one that is not SEND or RECV,
  // counted from 0) of the same plan lowered without fill items, after the messages before that
  // instruction. The last compute instruction is OPTIMIZER_STEP. Items of one position keep their
  // order.
  int position = 0;
  bool load = false;  // LOAD_BATCH; else FROZEN_FORWARD
  int component = 0;
  LayerRange layers;  // of a FROZEN_FORWARD
  SampleRange samples;
  int step_offset = 1;
};

struct LowerOptions {
  std::string strategy;  // Plan.strategy
  FrozenPolicy frozen = FrozenPolicy::kFirst;
  SyncPolicy sync = SyncPolicy::kBucketed;
  int64_t bucket_bytes = int64_t{25} << 20;  // a bucket is closed when its gradients reach this
  int frozen_quantum = 0;                    // 0: the profile's
  int max_frozen_batch =
      0;  // kFirst: the largest local batch of frozen work; 0: all samples at once
  bool global_norm = true;
  int recv_lookahead = 1;
  std::vector<FillItem>
      fill;  // kFill; empty: the unfilled plan, which is no valid plan but can be simulated
};

// InvalidArgument, with both values, if layout, schedule, options and cost model do not fit each
// other. The result carries the fingerprints and no prediction. It is valid (verify.h) unless fill
// items were missing, which only VerifyPlan finds.
absl::StatusOr<Plan> LowerPlan(const PipelineLayout& layout, const Schedule& schedule,
                               const LowerOptions& options, const CostModel& cost);

// The indices of the instructions that are not SEND or RECV: what FillItem.position counts.
std::vector<int> ComputeInstructions(const DeviceProgram& program);

// The samples of `micro_batch` that rank number `index` (0 .. replicas-1) of a stage takes in a
// group.
SampleRange SamplesOf(const PipelineLayout& layout, int group, int stage, int index,
                      int micro_batch);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWER_H_
