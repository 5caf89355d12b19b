// Which stages hold the same weights, on which ranks.
//
// Each chain of a backbone holds all its layers, each layer on one stage. If a backbone has several
// chains (bidirectional schedules), each chain has a copy of the weights, on other ranks. Each copy
// is also on every replica of its stage. All of these ranks sum their gradients. A forward-only
// stage uses the weights of the stage that trains the same layers.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_WEIGHT_GROUPS_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_WEIGHT_GROUPS_H_

#include <vector>

#include "core/base/range.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/placement/layout.h"

namespace dpipe {

// The weights of some layers of a backbone.
struct WeightGroup {
  std::vector<int> stages;  // the stages that train them, increasing: one per chain of the backbone
  std::vector<int> ranks;   // the ranks that hold them, increasing
};

class WeightGroups {
 public:
  explicit WeightGroups(const Plan& plan);
  explicit WeightGroups(const PipelineLayout& layout);

  // Groups are in the order of their first stages.
  int size() const { return static_cast<int>(groups_.size()); }
  const WeightGroup& group(int g) const { return groups_[g]; }
  // Returns the group whose weights a stage trains, or uses if it is forward-only.
  int OfStage(int stage) const { return of_stage_[stage]; }
  const WeightGroup& GroupOf(int stage) const { return groups_[OfStage(stage)]; }

 private:
  struct StageWeights {
    int backbone = 0;
    LayerRange layers;
    bool forward_only = false;
    std::vector<int> ranks;
  };
  explicit WeightGroups(const std::vector<StageWeights>& stages);
  static std::vector<StageWeights> StagesOf(const Plan& plan);
  static std::vector<StageWeights> StagesOf(const PipelineLayout& layout);

  std::vector<WeightGroup> groups_;
  std::vector<int> of_stage_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_WEIGHT_GROUPS_H_
