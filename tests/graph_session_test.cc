// Training on emulated GPUs with recorded passes (CUDA graphs). The results are bit-identical to
// those without recording, and memory does not grow. Also checks the streams on which inputs
// arrive.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/diffusion/noise_schedule.h"
#include "models/unet/unet.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSteps = 5;
constexpr int kMicroBatches = 4;

struct Outcome {
  testlib::TrainingOutcome trained;
  std::vector<int64_t> bytes;  // in tensors, on all devices, after each step
  int64_t num_launches = 0;
  std::vector<std::string> messages;
};

// Trains on virtual GPUs of a fake driver, which runs our kernels on the CPU.
Outcome Train(TrainingJob job, const Plan& plan, bool record) {
  cuda::FakeDriver driver;
  Outcome outcome;
  {
    const auto devices = *cuda::CreateVirtualCudaDevices(&driver, plan.num_devices());
    const auto workers = StartWorkers(devices);
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    job.connect = testlib::ConnectPeers;
    absl::Mutex mutex;
    job.graphs.enabled = record;
    job.graphs.say = [&](const std::string& line) {
      absl::MutexLock lock(&mutex);
      outcome.messages.push_back(line);
    };
    const auto session = StartSession(job, plan);
    EXPECT_TRUE(session.ok()) << session.status();
    for (int step = 0; step < kSteps; ++step) {
      const auto run = (*session)->Run(1, /*is_last=*/step == kSteps - 1, /*record=*/false);
      EXPECT_TRUE(run.ok()) << run.status();
      outcome.trained.losses.push_back(run->steps[0].loss);
      outcome.bytes.push_back(0);
      for (const auto& device : devices) {
        outcome.bytes.back() += device->allocator().stats().allocated_bytes;
      }
    }
    outcome.trained.parameters = *(*session)->CollectParameters();
    outcome.num_launches = driver.num_launches();
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
  EXPECT_EQ(driver.num_live_handles(), 0);
  return outcome;
}

// Expects the same results with and without recording. Returns those with recording.
Outcome ExpectSame(const TrainingJob& job, const Plan& plan) {
  const Outcome expected = Train(job, plan, /*record=*/false);
  const Outcome actual = Train(job, plan, /*record=*/true);
  EXPECT_EQ(testlib::FirstDifference(expected.trained, actual.trained), "");
  EXPECT_EQ(expected.num_launches, 0);
  EXPECT_NE(expected.trained.losses.front(), expected.trained.losses.back());
  return actual;
}

class GraphSessionTest : public ::testing::TestWithParam<DType> {
 protected:
  GraphSessionTest()
      : model_(testlib::MakeToyModel({.width = 16, .num_blocks = 2, .num_frozen_layers = 2})),
        parameters_(testlib::MakeToyParameters(model_, 5)),
        inputs_(&model_, 9, GetParam()) {
    job_.model = &model_;
    job_.inputs = &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job_.compute_dtype = GetParam();
  }

  Plan PlanBy(const std::string& strategy, int num_devices) const {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.num_micro_batches = kMicroBatches;
    const auto profile = testlib::SyntheticProfile(model_, GetParam(), 1, {1, 2, 4, 8}, 3);
    auto plan = testlib::MakeTestPlan(profile, request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::move(plan).value();
  }
  Plan PlanOf(const std::string& schedule_name, bool recompute) const {
    ScheduleRequest request;
    request.num_devices = 2;
    request.num_micro_batches = kMicroBatches;
    testlib::SchedulePlanOptions options;
    options.recompute = recompute;
    auto plan = testlib::MakeLoweredPlan(model_, GetParam(), *MakeSchedule(schedule_name, request),
                                         options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::move(plan).value();
  }

  const nn::Model model_;
  const testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  TrainingJob job_;
};

// By the second step, every pass has run often enough to be recorded.
void ExpectSteady(const Outcome& outcome) {
  EXPECT_THAT(outcome.messages, IsEmpty());
  EXPECT_GE(outcome.num_launches, (kSteps - 2) * kMicroBatches * 2);
  EXPECT_EQ(outcome.bytes[kSteps - 2], outcome.bytes[2]);
}

TEST_P(GraphSessionTest, OneDeviceThatAccumulatesGradients) {
  ExpectSteady(ExpectSame(job_, PlanBy("data_parallel", 1)));
}

TEST_P(GraphSessionTest, PipelinesWithMicroBatchesInFlight) {
  for (const char* strategy :
       {"1f1b", "gpipe", "diffusionpipe", "diffusionpipe-paper,min_bubble_us=0,local_batches="}) {
    SCOPED_TRACE(strategy);
    ExpectSteady(ExpectSame(job_, PlanBy(strategy, 2)));
  }
}

TEST_P(GraphSessionTest, ReplicasThatReduceGradients) {
  ExpectSteady(ExpectSame(job_, PlanBy("data_parallel", 2)));
}

TEST_P(GraphSessionTest, SplitBackwardPasses) {
  ExpectSteady(ExpectSame(job_, PlanOf("zb-h1", /*recompute=*/false)));
}

TEST_P(GraphSessionTest, RecomputedForwardPasses) {
  ExpectSteady(ExpectSame(job_, PlanOf("1f1b", /*recompute=*/true)));
}

// Their parameters are gathered to other addresses in every step; those of frozen components are
// not.
TEST_P(GraphSessionTest, ShardedParametersAreNotRecorded) {
  EXPECT_THAT(ExpectSame(job_, PlanBy("zero3", 2)).messages, IsEmpty());
}

// A profile, the number of graph launches, and the device's notes. Made with one device, because
// the fake driver's clock counts the work of all its streams.
struct Profiled {
  ModelProfile profile;
  int64_t num_launches = 0;
  std::vector<std::string> notes;
};

template <typename Driver = cuda::FakeDriver>
Profiled Profile(TrainingJob job, bool graphs) {
  Driver driver;
  Profiled result;
  {
    const auto devices = *cuda::CreateCudaDevices(&driver, 1);
    const auto workers = StartWorkers(devices);
    job.workers = {workers[0].get()};
    job.graphs.enabled = graphs;
    const auto profile = ProfileJob(job, {1, 4}, /*on_progress=*/nullptr, /*passes=*/3);
    EXPECT_TRUE(profile.ok()) << profile.status();
    result.profile = *profile;
    result.num_launches = driver.num_launches();
    result.notes = devices[0]->notes();
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
  EXPECT_EQ(driver.num_live_handles(), 0);
  return result;
}

// Without graphs, memory that is freed counts too.
TEST_P(GraphSessionTest, ProfilesAreMadeOfGraphs) {
  const Profiled by_call = Profile(job_, /*graphs=*/false), by_graph = Profile(job_, true);
  EXPECT_THAT(by_call.notes, IsEmpty());
  EXPECT_THAT(by_graph.notes, IsEmpty());
  EXPECT_EQ(by_call.num_launches, 0);
  int64_t launches = 0;
  for (int c = 0; c < by_call.profile.components_size(); ++c) {
    const ComponentProfile &call = by_call.profile.components(c),
                           &graph = by_graph.profile.components(c);
    for (int l = 0; l < call.layers_size(); ++l) {
      SCOPED_TRACE(call.layers(l).name());
      EXPECT_EQ(graph.layers(l).saved_bytes_per_sample(), call.layers(l).saved_bytes_per_sample());
      ASSERT_EQ(graph.layers(l).timings_size(), call.layers(l).timings_size());
      for (int t = 0; t < call.layers(l).timings_size(); ++t) {
        const LayerTiming &expected = call.layers(l).timings(t),
                          &timing = graph.layers(l).timings(t);
        EXPECT_GT(timing.forward_ns(), 0);
        EXPECT_LE(timing.forward_ns(), expected.forward_ns());
        EXPECT_LE(timing.input_grad_ns(), expected.input_grad_ns());
        EXPECT_LE(timing.weight_grad_ns(), expected.weight_grad_ns());
        // Three passes are timed and one is not.
        launches += 4 * (call.is_backbone() ? 3 : 1);
      }
    }
  }
  EXPECT_EQ(by_graph.num_launches, launches);
}

class DriverWithoutCapture : public cuda::FakeDriver {
 public:
  absl::Status BeginCapture(cuda::Stream stream) override {
    return absl::UnimplementedError("nothing is captured today");
  }
};

TEST_P(GraphSessionTest, UnrecordableWorkIsProfiledByCalls) {
  const Profiled refused = Profile<DriverWithoutCapture>(job_, /*graphs=*/true);
  EXPECT_EQ(refused.num_launches, 0);
  EXPECT_THAT(refused.notes, Contains(AllOf(HasSubstr("nothing is captured today"),
                                            HasSubstr("profiled without graphs"))));
  for (const ComponentProfile& component : refused.profile.components()) {
    for (const LayerProfile& layer : component.layers()) {
      EXPECT_GT(layer.timings(0).forward_ns(), 0) << layer.name();
    }
  }
}

// Records what arrives from the host on streams that run kernels.
class WatchedDriver : public cuda::FakeDriver {
 public:
  int64_t bytes_in_line() const {
    absl::MutexLock lock(&mutex_);
    int64_t bytes = 0;
    for (const auto& [stream, count] : bytes_from_host_) {
      if (kernel_streams_.count(stream) > 0) bytes += count;
    }
    return bytes;
  }
  int64_t bytes_from_host() const {
    absl::MutexLock lock(&mutex_);
    int64_t bytes = 0;
    for (const auto& [stream, count] : bytes_from_host_) bytes += count;
    return bytes;
  }
  void Reset() {
    absl::MutexLock lock(&mutex_);
    bytes_from_host_.clear();
  }

  absl::StatusOr<void*> AllocatePinned(const cuda::Context& context, int64_t size_bytes) override {
    const absl::StatusOr<void*> data = FakeDriver::AllocatePinned(context, size_bytes);
    absl::MutexLock lock(&mutex_);
    if (data.ok()) pinned_.insert(*data);
    return data;
  }
  absl::Status Copy(void* to, const void* from, int64_t size_bytes, cuda::Stream stream) override {
    {
      absl::MutexLock lock(&mutex_);
      if (pinned_.count(from) > 0) bytes_from_host_[stream] += size_bytes;
    }
    return FakeDriver::Copy(to, from, size_bytes, stream);
  }
  void EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                     size_t size_bytes) override {
    {
      absl::MutexLock lock(&mutex_);
      kernel_streams_.insert(stream);
    }
    FakeDriver::EnqueueKernel(stream, std::move(kernel), arguments, size_bytes);
  }

 private:
  mutable absl::Mutex mutex_;
  std::set<const void*> pinned_;
  std::set<void*> kernel_streams_;
  std::map<void*, int64_t> bytes_from_host_;
};

// Except for the loss's gradient, one number per sample.
TEST_P(GraphSessionTest, InputsDoNotQueueBehindWork) {
  const Plan plan = PlanBy("diffusionpipe", 2);
  WatchedDriver driver;
  {
    const auto workers = StartWorkers(*cuda::CreateVirtualCudaDevices(&driver, 2));
    for (const auto& worker : workers) job_.workers.push_back(worker.get());
    job_.connect = testlib::ConnectPeers;
    const auto session = StartSession(job_, plan);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE((*session)->Run(1, /*is_last=*/false, /*record=*/false).ok());
    driver.Reset();  // parameters were copied too
    ASSERT_TRUE((*session)->Run(1, /*is_last=*/false, /*record=*/false).ok());
    const int64_t seeds = plan.global_batch() * int64_t{sizeof(float)};
    EXPECT_EQ(driver.bytes_in_line(), seeds);
    EXPECT_GT(driver.bytes_from_host(), seeds);
    ASSERT_TRUE((*session)->Run(1, /*is_last=*/true, /*record=*/false).ok());
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
}

// Breaks the GPU at its n-th kernel.
class BreakingDriver : public cuda::FakeDriver {
 public:
  explicit BreakingDriver(int kernels) : left_(kernels) { HideMemory(); }
  void EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                     size_t size_bytes) override {
    if (left_.fetch_sub(1) == 1) Break("an illegal memory access");
    FakeDriver::EnqueueKernel(stream, std::move(kernel), arguments, size_bytes);
  }
  bool broken() const { return left_ <= 0; }

 private:
  std::atomic<int> left_;
};

TEST_P(GraphSessionTest, GpuErrorEndsTheRun) {
  const Plan plan = PlanBy("diffusionpipe", 2);
  bool broken = true;
  for (int kernels = 1; broken; kernels += 23) {
    SCOPED_TRACE(kernels);
    BreakingDriver driver(kernels);
    absl::Status status;
    {
      const auto workers = StartWorkers(*cuda::CreateVirtualCudaDevices(&driver, 2));
      TrainingJob job = job_;
      for (const auto& worker : workers) job.workers.push_back(worker.get());
      job.connect = testlib::ConnectPeers;
      job.graphs.enabled = true;
      const auto session = StartSession(job, plan);
      status = session.status();
      for (int step = 0; status.ok() && step < kSteps; ++step) {
        status = (*session)->Run(1, step == kSteps - 1, /*record=*/false).status();
      }
    }
    broken = driver.broken();
    EXPECT_EQ(!status.ok(), broken) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(broken ? "an illegal memory access" : ""));
    EXPECT_THAT(driver.violations(), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, GraphSessionTest, ::testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& info) {
                           return info.param == DType::kF32 ? "Fp32" : "Bf16";
                         });

// A small U-Net's inputs, drawn per sample.
class UNetInputs : public InputProvider {
 public:
  explicit UNetInputs(const nn::Program* program) : program_(program) {}

  absl::StatusOr<Tensor> Load(const std::string&, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    const ValueId id = program_->InputNamed(input);
    const Shape shape = program_->BatchShape(id, samples.size());
    const int64_t of_sample = shape.num_elements() / samples.size();
    std::vector<float> values;
    std::vector<int32_t> integers;
    for (int s = samples.begin; s < samples.end; ++s) {
      RandomStream random(static_cast<unsigned char>(input[0]), step, s, RandomPurpose::kTest);
      for (int64_t i = 0; i < of_sample; ++i) {
        values.push_back(random.NextNormal());
        integers.push_back(static_cast<int32_t>(random.NextBelow(1000)));
      }
    }
    if (program_->value(id).type.element == nn::Element::kI32) {
      return Tensor::FromHost<int32_t>(device, shape, integers);
    }
    const Tensor loaded = Tensor::FromHost<float>(device, shape, values);
    return loaded.To(nn::ResolveElement(program_->value(id).type.element, DType::kBf16));
  }

 private:
  const nn::Program* const program_;
};

// Convolutions, attention, norms, time embedding and noise in bf16, whose weights have prepared
// forms. The noise weights differ between samples.
TEST(GraphSessionUNetTest, PipelinedInTwoStages) {
  models::UNetConfig config;
  config.block_out_channels = {4, 8};
  config.down_has_attention = config.up_has_attention = {true, false};
  config.layers_per_block = 1;
  config.num_heads = {2, 2};
  config.transformer_layers = {1, 1};
  config.cross_attention_dim = 6;
  config.norm_groups = 2;
  diffusion::NoiseScheduleOptions noise;
  noise.prediction_type = diffusion::PredictionType::kV;
  auto program = models::BuildUNetForTraining(
      config, {4, 4, 3},
      diffusion::DiffusionObjective(*diffusion::NoiseSchedule::Create(noise), /*min_snr_gamma=*/5));
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<nn::Component> components;
  components.push_back({"unet", true, *std::move(program), {}});
  const auto model = nn::Model::Create("unet", std::move(components));
  ASSERT_TRUE(model.ok()) << model.status();
  const testlib::ToyParameters parameters = testlib::MakeToyParameters(*model, 5);
  UNetInputs inputs(&model->backbone().program);
  TrainingJob job;
  job.model = &*model;
  job.inputs = &inputs;
  job.frozen_parameters = parameters.frozen_pointers;
  job.backbone_parameters = nn::SourceOf(parameters.backbone);
  job.compute_dtype = DType::kBf16;
  testlib::PlanRequest request;
  request.strategy = "1f1b";
  request.num_devices = 2;
  request.num_micro_batches = kMicroBatches;
  request.global_batch = kMicroBatches;
  const auto profile = testlib::SyntheticProfile(*model, DType::kBf16, 1, {1, 2, 4}, 3);
  const auto plan = testlib::MakeTestPlan(profile, request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ExpectSteady(ExpectSame(job, *plan));
}

}  // namespace
}  // namespace dpipe
