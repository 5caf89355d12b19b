#include "core/profile/profiler.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/program_builder.h"
#include "core/tensor/cpu_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;

// The loss of a sample is its single number.
class LossNode : public nn::Node {
 public:
  absl::string_view kind() const override { return "loss"; }
  nn::ValueType output() const override { return {Shape(), nn::Element::kF32}; }
  absl::StatusOr<Tensor> Forward(const nn::NodeContext&, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors*) const override {
    return inputs[0].Reshape({inputs[0].dim(0)});
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors*,
                                                const Tensor& output_grad) const override {
    return std::vector<Tensor>{output_grad.Reshape({output_grad.dim(0), 1})};
  }
};

// Returns a component of one layer that maps `input` to one number per sample.
nn::Component Linear(const std::string& name, const std::string& input, nn::LayerKind kind) {
  nn::ProgramBuilder builder(name);
  const ValueId x = builder.AddInput(input, {Shape{4}, nn::Element::kCompute});
  builder.BeginLayer(name, kind);
  const ValueId y = nn::AddLinear(&builder, name, x, {1});
  builder.MarkOutput(builder.AddNode(std::make_unique<LossNode>(), {y}), "loss");
  return {name, kind == nn::LayerKind::kTrainable, builder.Build(), {}};
}

// A CPU with events on a simulated clock: it advances one microsecond per event, or by the test.
class ClockedCpu : public CpuDevice {
 public:
  explicit ClockedCpu(std::atomic<Nanos>* now)
      : CpuDevice(DeviceKind::kCpu, "cpu", {}, 1), now_(*now) {}

  std::shared_ptr<Device> MakeSibling() const override {
    return std::make_shared<ClockedCpu>(&now_);
  }
  std::shared_ptr<DeviceEvent> RecordEvent() override {
    return std::make_shared<Event>(now_ += kNanosPerMicro);
  }

 private:
  class Event : public DeviceEvent {
   public:
    explicit Event(Nanos time_ns) : time_ns_(time_ns) {}
    bool done() const override { return true; }
    Nanos time_ns() const override { return time_ns_; }

   private:
    const Nanos time_ns_;
  };

  std::atomic<Nanos>& now_;
};

// A frozen component and a backbone, each with one layer that takes one microsecond plus the time
// to load its input.
class ProfilerTest : public ::testing::Test {
 protected:
  ProfilerTest() {
    std::vector<nn::Component> components;
    components.push_back(Linear("encoder", "pixels", nn::LayerKind::kFrozen));
    components.push_back(Linear("backbone", "noise", nn::LayerKind::kTrainable));
    model_ = std::make_unique<nn::Model>(*nn::Model::Create("m", std::move(components)));
    inputs_.make_optimizer = [](const nn::ParameterSet&) {
      return [](nn::ParameterSet*) { return absl::OkStatus(); };
    };
    inputs_.load = [this](const nn::Component&, const std::string&, int samples,
                          const std::shared_ptr<Device>& device) -> absl::StatusOr<Tensor> {
      const int load = num_loads_++;
      if (slow_begin_ <= load && load < slow_end_) now_ += 5 * kNanosPerMilli;
      return Tensor::Zeros(device, Shape{samples, 4}, DType::kF32);
    };
    options_.local_batches = {1, 2, 3, 4};
  }

  absl::StatusOr<ModelProfile> Profile() {
    num_loads_ = 0;
    return ProfileModel(*model_, {&worker_}, inputs_, options_,
                        [this](double done) { progress_.push_back(done); });
  }

  std::atomic<Nanos> now_{0};
  DeviceWorker worker_{std::make_shared<ClockedCpu>(&now_)};
  std::unique_ptr<nn::Model> model_;
  ProfilerInputs inputs_;
  ProfilerOptions options_;
  std::vector<double> progress_;
  std::atomic<int> num_loads_{0};
  int slow_begin_ = 0, slow_end_ = 0;
};

TEST_F(ProfilerTest, TimesAllLayersAtAllLocalBatches) {
  const auto profile = Profile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto batches = [&](int component) {
    std::vector<int> batches;
    for (const LayerTiming& timing : profile->components(component).layers(0).timings()) {
      batches.push_back(timing.local_batch());
      EXPECT_GT(timing.forward_ns(), 0);
      EXPECT_EQ(timing.weight_grad_ns() > 0, component == 1);
    }
    return batches;
  };
  EXPECT_THAT(batches(0), ElementsAre(1));
  EXPECT_THAT(batches(1), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
  EXPECT_DOUBLE_EQ(progress_.back(), 1);
}

std::vector<Nanos> ForwardTimes(const ModelProfile& profile) {
  std::vector<Nanos> times;
  for (const LayerTiming& timing : profile.components(1).layers(0).timings()) {
    times.push_back(timing.forward_ns());
  }
  return times;
}

// Other programs use the machine during one fifth of the time. In each case no local batch looks
// more expensive.
TEST_F(ProfilerTest, ShortDisturbanceDoesNotChangeTimes) {
  ASSERT_TRUE(Profile().ok());
  const int num_loads = num_loads_;
  for (int part = 0; part < 5; ++part) {
    slow_begin_ = num_loads * part / 5;
    slow_end_ = num_loads * (part + 1) / 5;
    const auto profile = Profile();
    ASSERT_TRUE(profile.ok()) << profile.status();
    EXPECT_THAT(ForwardTimes(*profile), Each(Lt(kNanosPerMilli))) << "disturbed in part " << part;
  }
  // A permanent disturbance changes all times.
  slow_begin_ = 0;
  slow_end_ = num_loads;
  const auto slow = Profile();
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_THAT(ForwardTimes(*slow), Each(Ge(5 * kNanosPerMilli)));
}

std::vector<int> BatchesOf(const ModelProfile& profile) {
  std::vector<int> batches;
  for (const LayerTiming& timing : profile.components(1).layers(0).timings()) {
    batches.push_back(timing.local_batch());
  }
  return batches;
}

// 16 bytes per sample are loaded: 200 samples take a few KB, a million 16 MB.
TEST_F(ProfilerTest, SkipsLocalBatchesThatWouldNotFit) {
  options_.local_batches = {100, 200, 1 << 20, 1 << 21};
  options_.usable_bytes = {int64_t{1} << 20};
  auto profile = Profile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(BatchesOf(*profile), ElementsAre(100, 200));
  EXPECT_THAT(profile->provenance(), HasSubstr("; local batches of backbone end before 1048576"));
  EXPECT_THAT(profile->provenance(), HasSubstr("of the 1.0 MiB that cpu has for tensors"));
  EXPECT_DOUBLE_EQ(progress_.back(), 1);

  // The memory is also predicted after a single batch.
  options_.local_batches = {100, 1 << 20};
  profile = Profile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(BatchesOf(*profile), ElementsAre(100));

  options_.local_batches = {100, 200, 400};
  profile = Profile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(BatchesOf(*profile), ElementsAre(100, 200, 400));
  EXPECT_THAT(profile->provenance(), Not(HasSubstr("end before")));
}

TEST_F(ProfilerTest, ReportsIntermediateProfiles) {
  std::vector<std::vector<int>> batches;
  options_.passes = 9;
  options_.so_far = [&](const ModelProfile& profile) {
    EXPECT_EQ(profile.components(0).layers(0).timings_size(), 1);
    EXPECT_GT(profile.launch_overhead_ns(), 0);
    EXPECT_THAT(profile.provenance(), HasSubstr("unfinished"));
    batches.push_back(BatchesOf(profile));
  };
  const auto profile = Profile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(profile->provenance(), Not(HasSubstr("unfinished")));
  const std::vector<int> all = {1, 2, 3, 4};
  EXPECT_THAT(batches,
              ElementsAre(ElementsAre(1), ElementsAre(1, 2), ElementsAre(1, 2, 3), all, all, all));
}

TEST_F(ProfilerTest, RunsRequestedNumberOfPasses) {
  for (int passes : {1, 3, 4, 8}) {
    options_.passes = passes;
    options_.warmup_passes = 0;
    ASSERT_TRUE(Profile().ok());
    // A pass creates the inputs of each component, and that of the backbone draws them once more.
    EXPECT_EQ(num_loads_, passes * (1 + 2 * 4));
  }
  options_.passes = 0;
  EXPECT_THAT(std::string(Profile().status().message()), HasSubstr("0 are requested"));
}

TEST_F(ProfilerTest, CanBeStoppedBeforeAnyPass) {
  for (const int allowed : {0, 1, 9}) {
    std::atomic<int> asked{0};
    options_.should_stop = [&] { return ++asked > allowed; };
    const auto profile = Profile();
    EXPECT_TRUE(absl::IsCancelled(profile.status())) << profile.status();
    EXPECT_EQ(asked, allowed + 1) << "no more passes";
  }
}

}  // namespace
}  // namespace dpipe
