#include "core/report/plan_text.h"

#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

Stage* AddStage(Plan* plan, int begin, int end, int rank) {
  Stage* stage = plan->add_stages();
  stage->mutable_layers()->set_begin(begin);
  stage->mutable_layers()->set_end(end);
  stage->add_ranks(rank);
  return stage;
}

TEST(PlanTextTest, ListsTheLayersOfEachDevice) {
  Plan plan;
  AddStage(&plan, 0, 12, 0);
  plan.set_num_micro_batches(1);
  plan.set_micro_batch_size(8);
  plan.mutable_prediction()->set_step_ns(212000000);
  plan.mutable_prediction()->set_bubble_ratio(0.0314);
  EXPECT_EQ(
      PlanText(plan),
      "1 stage (layers 0-11 on device 0), 1 micro-batch of 8, predicted step 212.00 ms, bubble "
      "ratio 3.1 %");
  AddStage(&plan, 12, 30, 1)->add_ranks(2);
  plan.set_num_micro_batches(4);
  EXPECT_EQ(StagesText(plan), "layers 0-11 on device 0; layers 12-29 on device 1+2");
  EXPECT_EQ(PlanText(plan).find("2 stages (layers 0-11 on device 0; layers 12-29 on device 1+2), "
                                "4 micro-batches of 8"),
            0u);
}

}  // namespace
}  // namespace dpipe::report
