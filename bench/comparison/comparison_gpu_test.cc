// Strategies that do not fit together into one GPU's memory, on a fake GPU with limited memory.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison/comparison.h"
#include "core/report/progress.h"
#include "core/report/results/results.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/toy_model.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kDevices = 2;
constexpr int kWidth = 256;

class ComparisonGpuTest : public ::testing::Test {
 protected:
  // Tensors of megabytes, so that other memory hardly matters.
  ComparisonGpuTest() {
    testlib::ToyModelOptions options;
    options.width = kWidth;
    options.num_blocks = 2;
    options.num_frozen_layers = 1;
    model_ = std::make_unique<nn::Model>(testlib::MakeToyModel(options));
    parameters_ = testlib::MakeToyParameters(*model_, /*seed=*/5);
    inputs_ = std::make_unique<testlib::ToyInputs>(model_.get(), /*seed=*/5, DType::kF32);
    job_.model = model_.get();
    job_.inputs = inputs_.get();
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job_.connect = testlib::ConnectPeers;
  }

  // Compares on virtual devices of a GPU with this many bytes, beyond which allocations end the
  // program; 0: unlimited. Stores messages in messages_.
  absl::StatusOr<Comparison> Compare(int64_t memory_bytes) {
    cuda::FakeDriver driver;
    driver.gpus()[0].memory_bytes = memory_bytes;
    driver.set_memory_limit(memory_bytes);
    driver.by_the_clock = true;
    const auto gpus = StartWorkers(*cuda::CreateVirtualCudaDevices(&driver, kDevices));
    TrainingJob job = job_;
    for (const auto& gpu : gpus) job.workers.push_back(gpu.get());
    ComparisonOptions options;
    options.strategies = {"data_parallel", "1f1b"};
    options.global_batch = 4;
    options.steps = options.warmup_steps = 1;
    options.repeats = options.profiles = 2;
    options.reference_steps = 1;
    report::Progress::Options progress_options;
    messages_.clear();
    progress_options.write = [this](absl::string_view text) { messages_ += std::string(text); };
    report::Progress progress(progress_options);
    auto comparison = CompareStrategies(job, options, &progress);
    driver.RunAll();
    EXPECT_EQ(driver.live_bytes(), 0);
    EXPECT_THAT(driver.violations(), IsEmpty());
    return comparison;
  }

  std::unique_ptr<nn::Model> model_;
  testlib::ToyParameters parameters_;
  std::unique_ptr<testlib::ToyInputs> inputs_;
  TrainingJob job_;
  std::string messages_;
};

TEST_F(ComparisonGpuTest, StrategiesThatDoNotFitTogetherAreMeasuredInGroups) {
  const auto together = Compare(/*memory_bytes=*/0);
  ASSERT_TRUE(together.ok()) << together.status();
  EXPECT_THAT(messages_, Not(HasSubstr("one after another")));
  EXPECT_EQ(together->cluster.memory_bytes_per_device(), 0);
  int64_t largest = 0;
  for (const StrategyResult& result : together->results.strategies()) {
    largest = std::max(largest, report::PeakMemoryBytes(result));
  }

  // Room for one strategy, but not for both.
  const auto apart = Compare(largest * 13 / 10 * kDevices * 8 / 7);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(messages_, HasSubstr("2 group(s), one after another"));
  EXPECT_NEAR(static_cast<double>(apart->cluster.memory_bytes_per_device()), 1.3 * largest,
              0.01 * largest);
  ASSERT_THAT(apart->results.strategies(), SizeIs(2));
  for (int i = 0; i < 2; ++i) {
    const StrategyResult& result = apart->results.strategies(i);
    EXPECT_EQ(result.skipped(), "");
    EXPECT_EQ(result.invalid(), "");
    EXPECT_THAT(result.images_per_second(), SizeIs(2));
    EXPECT_THAT(result.losses(), SizeIs(4));
    EXPECT_EQ(result.session_group(), i);
    EXPECT_EQ(together->results.strategies(i).session_group(), 0);
  }
}

}  // namespace
}  // namespace dpipe::bench
