#include "core/schedule/placement/weight_groups.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;

// Two pipeline groups of two devices; the first device has two replicas. Both chains belong to the
// same backbone, in opposite directions.
TEST(WeightGroupsTest, CopiesAndReplicasShareAGroup) {
  PipelineLayout layout;
  layout.num_devices = 6;
  layout.replicas = {2, 1};
  layout.stages = {{{0, 3}, 0, 0, false, false},
                   {{3, 5}, 0, 1, false, false},
                   {{0, 3}, 1, 1, false, false},
                   {{3, 5}, 1, 0, false, false}};
  layout.chains = {{0, 0, 2, 2, 2, 0}, {0, 2, 2, 2, 2, 4}};
  const WeightGroups groups(layout);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_THAT(groups.group(0).stages, ElementsAre(0, 2));
  EXPECT_THAT(groups.group(0).ranks, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(groups.GroupOf(3).stages, ElementsAre(1, 3));
}

// Equal layer ranges of another backbone are different weights. The forward-only lap of a chain
// uses the weights of its second lap.
TEST(WeightGroupsTest, BackbonesAreSeparateAndLapsShareAGroup) {
  Plan plan;
  const auto add = [&](int component, int begin, int end, bool forward_only, int rank) {
    Stage* const stage = plan.add_stages();
    stage->set_component(component);
    stage->mutable_layers()->set_begin(begin);
    stage->mutable_layers()->set_end(end);
    stage->set_forward_only(forward_only);
    stage->add_ranks(rank);
  };
  add(1, 0, 2, true, 0);
  add(1, 2, 4, true, 1);
  add(1, 0, 2, false, 0);
  add(1, 2, 4, false, 1);
  add(3, 0, 2, false, 1);
  const WeightGroups groups(plan);
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups.OfStage(0), groups.OfStage(2));
  EXPECT_THAT(groups.GroupOf(1).stages, ElementsAre(3));
  EXPECT_THAT(groups.GroupOf(1).ranks, ElementsAre(1));
  EXPECT_THAT(groups.GroupOf(4).stages, ElementsAre(4));
}

}  // namespace
}  // namespace dpipe
