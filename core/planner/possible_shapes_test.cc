#include "core/planner/possible_shapes.h"

#include "core/planner/strategy.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

Strategy StrategyOf(const std::string& schedule, const std::string& frozen) {
  Strategy strategy;
  strategy.set_name("s");
  strategy.set_schedule(schedule);
  strategy.set_frozen(frozen);
  return strategy;
}

ShapeRequest RequestOf(int num_devices, int global_batch, int frozen_quantum) {
  ShapeRequest request;
  request.num_devices = num_devices;
  request.global_batch = global_batch;
  request.frozen_quantum = frozen_quantum;
  return request;
}

TEST(PossibleShapesTest, BatchesThatDivideArePossible) {
  EXPECT_TRUE(CheckShapesExist(StrategyOf("1f1b", "fill"), RequestOf(2, 7, 1)).ok());
  EXPECT_TRUE(CheckShapesExist(StrategyOf("single", "first"), RequestOf(2, 8, 4)).ok());
  EXPECT_TRUE(CheckShapesExist(StrategyOf("single|1f1b", "fill"), RequestOf(2, 7, 1)).ok())
      << "one of the alternatives";
}

TEST(PossibleShapesTest, OthersSayWhy) {
  EXPECT_EQ(CheckShapesExist(StrategyOf("single", "first"), RequestOf(2, 7, 1)).message(),
            "strategy s on 2 devices: a global batch of 7 samples does not divide over 2 "
            "pipelines; change --global_batch=7, --micro_batches=0, the number of devices or the "
            "strategy");
  EXPECT_EQ(CheckShapesExist(StrategyOf("1f1b", "fill"), RequestOf(2, 5, 4)).message(),
            "strategy s on 2 devices: a pipeline's 5 samples are not a multiple of the 4 samples "
            "that frozen components are profiled and run on at a time (--frozen_quantum); change "
            "--global_batch=5, --micro_batches=0, the number of devices or the strategy");
}

TEST(PossibleShapesTest, AlternativesMayHaveAPartitionerAndAShardingOfTheirOwn) {
  Strategy strategy = StrategyOf("1f1b|wave/skip_aware|single/none/zero3", "fill");
  EXPECT_TRUE(CheckShapesExist(strategy, RequestOf(2, 8, 1)).ok());
  const std::vector<ScheduleAlternative> choices = ScheduleAlternatives(strategy);
  ASSERT_EQ(choices.size(), 3);
  EXPECT_EQ(choices[0].partitioner + choices[0].shard, "");
  EXPECT_EQ(choices[1].schedule, "wave");
  EXPECT_EQ(choices[1].partitioner, "skip_aware");
  EXPECT_EQ(choices[2].shard, "zero3");
  strategy.set_schedule("1f1b/zero2");
  strategy.set_partitioner("balanced");
  EXPECT_EQ(CheckStrategy(strategy).message().substr(0, 43),
            "strategy: partitioner='zero2' is not one of");
}

TEST(PossibleShapesTest, CachedFrozenOutputsNeedNoQuantum) {
  EXPECT_TRUE(CheckShapesExist(StrategyOf("1f1b", "cached"), RequestOf(2, 5, 4)).ok());
}

}  // namespace
}  // namespace dpipe
