// Who holds what in a plan: the part of verification that looks at no order.
#ifndef DPIPE_CORE_SCHEDULE_PLAN_SHAPE_H_
#define DPIPE_CORE_SCHEDULE_PLAN_SHAPE_H_

#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// A rank's place in the backbone.
struct RankPlace {
  int stage = -1;
  int group = 0;
  int replicas = 1;  // ranks of the stage in the group
  int index = 0;     // among them
  LayerRange layers;
};

class PlanShape {
 public:
  // InvalidArgument if header, components, stages and ranks contradict each other, the profile or
  // the cluster.
  static absl::StatusOr<PlanShape> Create(const Plan& plan, const CostModel& cost);

  const RankPlace& place(int rank) const { return places_[rank]; }
  int num_stages() const { return num_stages_; }
  // The samples of a micro-batch that a rank trains on.
  SampleRange SamplesOf(int rank, int micro_batch) const;

 private:
  int num_stages_ = 0;
  int num_micro_batches_ = 0;
  int micro_batch_size_ = 0;
  std::vector<RankPlace> places_;
};

// "rank 2, instruction 17 (FORWARD): ".
std::string InstructionName(const Plan& plan, int rank, int index);

// InvalidArgument unless every field that means something for the instruction's kind is in range,
// and every other one is empty: -1 for indices, 0 for bytes, [0, 0) for ranges.
absl::Status CheckFields(const Plan& plan, const PlanShape& shape, int rank, int index);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLAN_SHAPE_H_
