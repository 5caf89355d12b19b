// Checks that the default frozen quantum leaves every batch trainable.
#include "baselines/registry.h"
#include "core/planner/possible_shapes.h"
#include "gtest/gtest.h"
#include "models/trainable/frozen_quantum.h"

namespace dpipe {
namespace {

absl::Status Check(const std::string& strategy, int num_devices, int global_batch, int quantum) {
  ShapeRequest request;
  request.num_devices = num_devices;
  request.global_batch = global_batch;
  request.frozen_quantum = quantum;
  return CheckShapesExist(*FindStrategy(strategy), request);
}

TEST(SmallBatchesTest, EveryBatchCanBePlannedFor) {
  for (const int devices : {1, 2}) {
    for (int batch = 1; batch <= 9; ++batch) {
      const int quantum = models::DefaultFrozenQuantum(batch, devices);
      EXPECT_EQ(batch % quantum, 0) << batch;
      for (const char* strategy : {"diffusionpipe", "opendiffusionpipe", "1f1b", "gpipe"}) {
        const absl::Status possible = Check(strategy, devices, batch, quantum);
        EXPECT_TRUE(possible.ok()) << possible;
      }
      if (batch % devices == 0) {
        const absl::Status possible = Check("data_parallel", devices, batch, quantum);
        EXPECT_TRUE(possible.ok()) << possible;
      }
    }
  }
}

TEST(SmallBatchesTest, AFixedQuantumDoesNotSuitEveryBatch) {
  EXPECT_FALSE(Check("diffusionpipe", 2, 5, 4).ok());
  EXPECT_FALSE(Check("diffusionpipe", 1, 1, 4).ok());
}

TEST(SmallBatchesTest, LargerQuantaWhereTheyDivideAShare) {
  EXPECT_EQ(models::DefaultFrozenQuantum(8, 1), 4);
  EXPECT_EQ(models::DefaultFrozenQuantum(8, 2), 4) << "of the default batch";
  EXPECT_EQ(models::DefaultFrozenQuantum(4, 2), 2);
  EXPECT_EQ(models::DefaultFrozenQuantum(6, 1), 2);
  EXPECT_EQ(models::DefaultFrozenQuantum(7, 2), 1);
}

}  // namespace
}  // namespace dpipe
