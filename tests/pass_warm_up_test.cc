// If receives occupy the device, ranks must run everything once before their first message: no pass
// of any strategy may have a new shape after that. The warm_up leaves no trace in the training
// results.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "baselines/registry.h"
#include "core/comm/in_process.h"
#include "core/nn/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/forwarding_communicator.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

// The work done on each device, and which of it was new after the device's first message.
class Log {
 public:
  void Meet(const Device* device, const std::string& what) {
    absl::MutexLock lock(&mutex_);
    if (!met_[device].insert(what).second) return;
    if (in_messages_.count(device) > 0) late_.insert(what);
  }
  void BeginMessages(const Device* device) {
    absl::MutexLock lock(&mutex_);
    in_messages_.insert(device);
  }
  void Clear() {
    absl::MutexLock lock(&mutex_);
    met_.clear();
    in_messages_.clear();
    late_.clear();
  }
  std::set<std::string> late() const {
    absl::MutexLock lock(&mutex_);
    return late_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<const Device*, std::set<std::string>> met_;
  std::set<const Device*> in_messages_;
  std::set<std::string> late_;
};

// Wraps a node and logs its passes.
class LoggedNode : public nn::Node {
 public:
  LoggedNode(const nn::Node* inner, std::string name, Log* log)
      : inner_(*inner), name_(std::move(name)), log_(log) {}

  absl::string_view kind() const override { return inner_.kind(); }
  nn::ValueType output() const override { return inner_.output(); }
  nn::NodeWork Work(const nn::WorkContext& context) const override { return inner_.Work(context); }
  bool stops_gradient() const override { return inner_.stops_gradient(); }
  bool AddsToGrad() const override { return inner_.AddsToGrad(); }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override {
    Meet(saved == nullptr ? "forward" : "forward for backward", inputs[0]);
    return inner_.Forward(context, inputs, saved);
  }
  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext& context,
                                                nn::SavedTensors* saved,
                                                const Tensor& output_grad) const override {
    Meet(context.later_grad.defined() ? "input gradient, added" : "input gradient", output_grad);
    return inner_.InputGrad(context, saved, output_grad);
  }
  absl::Status WeightGrad(const nn::NodeContext& context, nn::SavedTensors* saved) const override {
    Meet("weight gradient", *context.weight_grads[0]);
    return inner_.WeightGrad(context, saved);
  }

 private:
  void Meet(const std::string& pass, const Tensor& tensor) const {
    log_->Meet(tensor.device().get(),
               absl::StrCat(name_, ": ", pass, " of ", tensor.shape().ToString()));
  }

  const nn::Node& inner_;
  const std::string name_;
  Log* const log_;
};

// Returns the same program with logged nodes; `original` must outlive it.
nn::Program Logged(const nn::Program& original, Log* log) {
  nn::ProgramBuilder builder(original.name());
  std::map<ValueId, ValueId> values;
  for (ValueId id : original.inputs()) {
    values[id] = builder.AddInput(original.value(id).name, original.value(id).type);
  }
  for (int l = 0; l < original.num_layers(); ++l) {
    const nn::LayerInfo& layer = original.layer(l);
    builder.BeginLayer(layer.name, layer.kind);
    for (int i = layer.begin_parameter; i < layer.end_parameter; ++i) {
      const nn::ParameterInfo& parameter = original.parameter(nn::ParameterId(i));
      builder.AddParameter(parameter.name, parameter.shape, parameter.init, parameter.decay);
    }
    for (int i = layer.begin_node; i < layer.end_node; ++i) {
      const nn::NodeInfo& node = original.node(nn::NodeId(i));
      std::vector<ValueId> inputs;
      for (ValueId id : node.inputs) inputs.push_back(values.at(id));
      values[node.output] = builder.AddNode(
          std::make_unique<LoggedNode>(node.node.get(), absl::StrCat(layer.name, " ", i), log),
          inputs, node.parameters);
    }
  }
  for (ValueId id : original.outputs()) {
    builder.MarkOutput(values.at(id), original.value(id).name);
  }
  return builder.Build();
}

nn::Model Logged(const nn::Model& original, Log* log) {
  std::vector<nn::Component> components;
  for (int i = 0; i < original.num_components(); ++i) {
    const nn::Component& component = original.component(i);
    components.push_back({component.name, component.is_backbone, Logged(component.program, log),
                          component.sources, component.self_conditioning});
  }
  auto model = nn::Model::Create(original.name(), std::move(components));
  EXPECT_TRUE(model.ok()) << model.status();
  return std::move(model).value();
}

enum class Receives { kNotOnDevice, kOnDevice, kOnDeviceUndeclared };

// Claims that receives occupy the device, or that they do not, and logs the first message.
class Talker : public testlib::ForwardingCommunicator {
 public:
  Talker(std::unique_ptr<Communicator> inner, Receives receives, const Device* device, Log* log)
      : ForwardingCommunicator(std::move(inner)), receives_(receives), device_(device), log_(log) {}

  bool occupies_device() const override { return receives_ == Receives::kOnDevice; }
  absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) override {
    log_->BeginMessages(device_);
    return ForwardingCommunicator::ExpectMessages(to, from);
  }

 private:
  const Receives receives_;
  const Device* const device_;
  Log* const log_;
};

class Trainer {
 public:
  explicit Trainer(const testlib::ToyModelOptions& options)
      : original_(testlib::MakeToyModel(options)), model_(Logged(original_, &log_)) {}

  ModelProfile profile() const {
    return testlib::SyntheticProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8}, 3);
  }
  static testlib::PlanRequest Request(const std::string& strategy, int num_stages) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = 4;
    request.global_batch = 16;
    request.micro_batch_size = 2;
    request.num_stages = num_stages;
    return request;
  }
  absl::StatusOr<Plan> MakePlan(const std::string& strategy, int num_stages) const {
    return testlib::MakeTestPlan(profile(), Request(strategy, num_stages));
  }

  absl::StatusOr<testlib::TrainingOutcome> Train(const Plan& plan, Receives receives) {
    log_.Clear();  // a device may have the address of an earlier one
    const auto parameters = testlib::MakeToyParameters(model_, 5);
    testlib::ToyInputs inputs(&model_, 9, DType::kF32);
    // Computed elsewhere, like cached values.
    const auto original_parameters = testlib::MakeToyParameters(original_, 5);
    testlib::CachedToyInputs cached_inputs(&original_, &original_parameters, 9, DType::kF32);
    const auto workers = StartWorkers(std::vector<std::shared_ptr<Device>>(4, Device::Cpu()));
    TrainingJob job;
    job.model = &model_;
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    job.inputs =
        plan.cached_frozen_outputs() ? static_cast<InputProvider*>(&cached_inputs) : &inputs;
    job.frozen_parameters = parameters.frozen_pointers;
    job.backbone_parameters = nn::SourceOf(parameters.backbone);
    job.connect = [this, receives](const std::vector<std::shared_ptr<Device>>& devices,
                                   absl::Duration deadline) {
      InProcessOptions options;
      options.deadline = deadline;
      auto ranks = CreateInProcessCommunicators(static_cast<int>(devices.size()), options);
      for (size_t i = 0; i < ranks.size(); ++i) {
        ranks[i] = std::make_unique<Talker>(std::move(ranks[i]), receives, devices[i].get(), &log_);
      }
      return absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(std::move(ranks));
    };
    return testlib::Train(job, plan, /*steps=*/3);
  }

  // The work that was new after the first message of the last training.
  std::set<std::string> late() const { return log_.late(); }

 private:
  Log log_;
  const nn::Model original_;
  const nn::Model model_;
};

// Strategy, recomputation.
using Case = std::tuple<std::string, bool>;

class PassWarmUpTest : public ::testing::TestWithParam<Case> {};

void ExpectNothingNew(Trainer* trainer, const Plan& plan) {
  const auto expected = trainer->Train(plan, Receives::kNotOnDevice);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = trainer->Train(plan, Receives::kOnDevice);
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "");
  EXPECT_THAT(trainer->late(), IsEmpty());
}

TEST_P(PassWarmUpTest, NothingIsNewAfterTheFirstMessage) {
  const auto& [strategy, recompute] = GetParam();
  testlib::ToyModelOptions options;
  options.u_shaped = true;
  Trainer trainer(options);
  const std::string spec = strategy + (recompute ? ",recompute=full" : "");
  for (int num_stages : {0, 4}) {
    const auto plan = trainer.MakePlan(spec, num_stages);
    if (plan.ok()) {
      ExpectNothingNew(&trainer, *plan);
    } else {  // the strategy has no such shape, or predicts the weights and cannot recompute
      EXPECT_TRUE(num_stages != 0 || (strategy == "xpipe" && recompute)) << plan.status();
    }
  }
}

TEST(WarmUpOfTwoLapsTest, NothingIsNewAfterTheFirstMessage) {
  testlib::ToyModelOptions options;
  options.self_conditioning = true;
  Trainer trainer(options);
  ModelProfile profile = trainer.profile();
  profile.set_self_conditioning_probability(0.5);
  const auto plans = testlib::MakeTestPlans(profile, trainer.Request("1f1b", 4));
  ASSERT_TRUE(plans.ok()) << plans.status();
  ExpectNothingNew(&trainer, plans->self_conditioned);
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto& [strategy, recompute] = info.param;
  std::string name = "strategy_" + strategy + (recompute ? "_recomputing" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, PassWarmUpTest,
                         ::testing::Combine(::testing::ValuesIn(StrategyNames()),
                                            ::testing::Bool()),
                         CaseName);

// The check can fail.
TEST(WarmUpCheckTest, DetectsNewWorkWithoutAWarmUp) {
  Trainer trainer({});
  const auto plan = trainer.MakePlan("1f1b", 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto outcome = trainer.Train(*plan, Receives::kOnDeviceUndeclared);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(trainer.late(), Contains("block.0.down 8: weight gradient of [16, 32]"));
}

}  // namespace
}  // namespace dpipe
