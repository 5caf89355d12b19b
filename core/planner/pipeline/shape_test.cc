#include "core/planner/pipeline/shape.h"

#include <tuple>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

ShapeRequest Request(const std::string& schedule, int num_devices, int global_batch) {
  ShapeRequest request;
  request.schedule = schedule;
  request.num_devices = num_devices;
  request.global_batch = global_batch;
  return request;
}

// Returns (S, M, D) of each shape.
std::vector<std::tuple<int, int, int>> All(const ShapeRequest& request) {
  absl::Status why;
  std::vector<std::tuple<int, int, int>> shapes;
  for (const PipelineShape& shape : EnumerateShapes(request, &why)) {
    shapes.emplace_back(shape.num_stages, shape.num_micro_batches, shape.devices_per_pipeline);
  }
  return shapes;
}

std::string Why(const ShapeRequest& request) {
  absl::Status why;
  EXPECT_TRUE(EnumerateShapes(request, &why).empty());
  return std::string(why.message());
}

TEST(ShapeTest, EverythingThatDivides) {
  // 4 devices, 4 samples. D=2: two groups of 2 samples. D=4: S=2 has two devices per stage, so a
  // micro-batch has 2 or 4 samples.
  EXPECT_EQ(All(Request("1f1b", 4, 4)),
            (std::vector<std::tuple<int, int, int>>{
                {2, 1, 2}, {2, 1, 4}, {2, 2, 2}, {2, 2, 4}, {4, 1, 4}, {4, 2, 4}, {4, 4, 4}}));
  EXPECT_EQ(All(Request("single", 4, 8)),
            (std::vector<std::tuple<int, int, int>>{{1, 1, 1}, {1, 2, 1}}));
}

TEST(ShapeTest, MicroBatchSizeDeterminesTheirNumber) {
  ShapeRequest request = Request("1f1b", 2, 32);
  request.micro_batch_size = 4;
  EXPECT_EQ(All(request), (std::vector<std::tuple<int, int, int>>{{2, 8, 2}}));
  request.schedule = "single";
  EXPECT_EQ(All(request), (std::vector<std::tuple<int, int, int>>{{1, 4, 1}}));
}

TEST(ShapeTest, ManyMicroBatchesAreThinnedOutDownToOneSampleEach) {
  // 2 devices, 360 samples: all divisors up to 2 * 2 micro-batches, then those at least 1.5 times
  // the previous one, and the last.
  ShapeRequest request = Request("1f1b", 2, 360);
  request.dense_micro_batches_per_stage = 2;
  std::vector<int> counts;
  for (const auto& [stages, micro_batches, devices] : All(request)) counts.push_back(micro_batches);
  EXPECT_EQ(counts, (std::vector<int>{1, 2, 3, 4, 6, 9, 15, 24, 36, 60, 90, 180, 360}));
  request.num_micro_batches = 5;
  EXPECT_EQ(All(request), (std::vector<std::tuple<int, int, int>>{{2, 5, 2}}));
}

TEST(ShapeTest, OneDeviceMayHaveOneStage) {
  EXPECT_EQ(All(Request("1f1b", 1, 2)),
            (std::vector<std::tuple<int, int, int>>{{1, 1, 1}, {1, 2, 1}}));
}

TEST(ShapeTest, OneStageIsAllowedIfRequested) {
  ShapeRequest request = Request("1f1b", 2, 2);
  request.num_stages = 1;
  request.devices_per_pipeline = 1;
  EXPECT_EQ(All(request).size(), 1);
}

TEST(ShapeTest, ErrorsNameBothValues) {
  ShapeRequest request = Request("1f1b", 4, 30);
  request.num_stages = 8;
  EXPECT_EQ(Why(request), "8 stages need at least as many devices; there are 4");
  request = Request("1f1b", 4, 30);
  request.devices_per_pipeline = 3;
  EXPECT_EQ(Why(request), "4 devices do not divide into pipelines of 3");
  request.devices_per_pipeline = 8;
  EXPECT_EQ(Why(request), "a pipeline of 8 devices needs more than the 4 available");
  request = Request("single", 4, 30);
  EXPECT_EQ(Why(request), "a global batch of 30 samples does not divide over 4 pipelines");
  request = Request("1f1b", 2, 8);
  request.num_micro_batches = 16;
  EXPECT_EQ(Why(request), "16 micro-batches are more than a pipeline's 8 samples");
  request.num_micro_batches = 3;
  EXPECT_EQ(Why(request), "a pipeline's 8 samples do not divide into 3 micro-batches");
  request.num_micro_batches = 0;
  request.micro_batch_size = 3;
  EXPECT_EQ(Why(request), "a pipeline's 8 samples do not divide into micro-batches of 3");
  request.micro_batch_size = 2;
  request.num_micro_batches = 2;
  EXPECT_EQ(Why(request), "2 micro-batches of 2 samples are not a pipeline's 8 samples");
  request = Request("1f1b", 4, 6);
  request.devices_per_pipeline = 4;
  request.num_stages = 2;
  request.num_micro_batches = 2;
  EXPECT_EQ(Why(request), "a micro-batch of 3 samples does not divide over 2 devices of a stage");
  request = Request("1f1b", 2, 6);
  request.frozen_quantum = 4;
  EXPECT_EQ(Why(request),
            "a pipeline's 6 samples are not a multiple of the 4 samples that frozen components are "
            "profiled and run on at a time (--frozen_quantum)");
  request = Request("single", 2, 6);
  request.num_stages = 2;
  EXPECT_EQ(Why(request), "schedule 'single' has 1 stage; requested 2");
  request = Request("1f1b", 3, 6);
  request.num_stages = 2;
  EXPECT_EQ(Why(request), "3 devices do not divide over 2 stages");
}

}  // namespace
}  // namespace dpipe
