// Compares the strategies whose weights lag behind with their definitions, bit for bit: PipeDream's
// stashed weights, XPipe's predicted ones, HetPipe's waves. The test computes the definition on one
// device, without a plan. Under 1F1B, stage s of p has seen max(0, m - (p - 1 - s)) micro-batches'
// gradients when micro-batch m goes forward. When m comes back, it has seen all those before m.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/nn/execution.h"
#include "core/proto/instruction_parts.h"
#include "core/train/optimizer/adamw_optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

constexpr int kGlobalBatch = 16;
constexpr int kMicroBatchSize = 2;
constexpr int kSteps = 3;
constexpr uint64_t kInputSeed = 9;

class RelaxedTest : public ::testing::Test {
 protected:
  RelaxedTest()
      : model_(testlib::MakeToyModel()),
        parameters_(testlib::MakeToyParameters(model_, /*seed=*/5)),
        inputs_(&model_, kInputSeed, DType::kF32),
        cached_(&model_, &parameters_, kInputSeed, DType::kF32) {
    optimizer_.learning_rate.peak = 1e-2f;
    optimizer_.learning_rate.shape = LrSchedule::Shape::kCosine;
    optimizer_.learning_rate.total_steps = kSteps;
  }

  absl::StatusOr<Plan> MakePlan(const std::string& strategy, int num_devices, int num_stages,
                                int global_batch = kGlobalBatch) const {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.global_batch = global_batch;
    request.micro_batch_size = kMicroBatchSize;
    request.num_stages = num_stages;
    return testlib::MakeTestPlan(
        testlib::SyntheticProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8},
                                  /*seed=*/3),
        request);
  }

  absl::StatusOr<testlib::TrainingOutcome> Train(const Plan& plan) {
    return Train(plan, &inputs_, kSteps);
  }

  absl::StatusOr<testlib::TrainingOutcome> Train(const Plan& plan, InputProvider* inputs,
                                                 int steps) {
    auto workers =
        StartWorkers(std::vector<std::shared_ptr<Device>>(plan.num_devices(), Device::Cpu()));
    TrainingJob job = Job(inputs);
    for (auto& worker : workers) job.workers.push_back(worker.get());
    return testlib::Train(job, plan, steps);
  }

  // Without workers.
  TrainingJob Job(InputProvider* inputs) const {
    TrainingJob job;
    job.model = &model_;
    job.inputs = inputs;
    job.frozen_parameters = parameters_.frozen_pointers;
    job.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job.optimizer = optimizer_;
    return job;
  }

  nn::Model model_;
  testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  testlib::CachedToyInputs cached_;
  AdamWOptions optimizer_;
};

using Weights = std::map<std::string, Tensor>;

// One virtual worker, by the definition.
class Worker {
 public:
  Worker(const nn::Program& program, InputProvider* inputs, const Plan& plan,
         const AdamWOptions& optimizer, const Weights& initial)
      : program_(program),
        inputs_(inputs),
        relaxation_(plan.relaxation()),
        scale_(1.0f / static_cast<float>(kMicroBatchSize * PerUpdate())),
        whole_(program, program.all_layers(), Device::Cpu()) {
    for (const Stage& stage : plan.stages()) {
      const LayerRange layers = LayersIn(stage);
      stages_.push_back(std::make_unique<nn::ParameterSet>(program, layers, Device::Cpu()));
      EXPECT_TRUE(stages_.back()->Load(initial).ok());
      optimizers_.push_back(AdamWFactory(optimizer)(*stages_.back()));
    }
  }

  void BeginStep(int64_t step) {
    step_ = step;
    versions_.assign(1, Current());
    predicted_.assign(1, Predictions());
  }

  // Returns the losses of micro-batch m of this step, whose first sample is `first`.
  std::vector<float> Run(int m, int first, int updates_per_step) {
    const int update = m / PerUpdate();
    nn::ValueMap values;
    for (ValueId id : program_.inputs()) {
      values[id] = *inputs_->Load("backbone", program_.value(id).name, step_,
                                  {first, first + kMicroBatchSize}, Device::Cpu());
    }
    EXPECT_TRUE(whole_.Load(ForwardWeights(m, update)).ok());
    nn::RangeState state;
    EXPECT_TRUE(nn::Forward(program_, program_.all_layers(), whole_, {}, &values, &state).ok());
    const ValueId loss_id = program_.OutputNamed("loss");
    const std::vector<float> losses(values[loss_id].data<float>(),
                                    values[loss_id].data<float>() + kMicroBatchSize);
    // Stashed weights are used both ways, predicted ones in the forward pass alone.
    if (Predicts()) {
      EXPECT_TRUE(whole_.Load(versions_.back()).ok());
    }
    nn::ValueMap grads;
    grads[loss_id] = Tensor::Empty(Device::Cpu(), {kMicroBatchSize}, DType::kF32);
    for (float& seed : grads[loss_id].span<float>()) seed = scale_;
    EXPECT_TRUE(nn::Backward(program_, program_.all_layers(), &whole_, &state, &grads).ok());
    if ((m + 1) % PerUpdate() == 0) Update(/*ends_step=*/update == updates_per_step - 1);
    return losses;
  }

  int PerUpdate() const { return relaxation_.micro_batches_per_update(); }
  Weights Current() const {
    Weights weights;
    for (const auto& stage : stages_) stage->Collect(&weights);
    return weights;
  }
  // Replaces the newest version.
  void Set(const Weights& weights) {
    for (auto& stage : stages_) EXPECT_TRUE(stage->Load(weights).ok());
    versions_.back() = Current();
  }

 private:
  bool Predicts() const { return relaxation_.weights() == Relaxation::PREDICTED; }

  // Returns each stage's weights for the forward pass of micro-batch m: those after the updates
  // made before it, or those predicted then for m's update. All micro-batches of an update use the
  // first one's prediction.
  Weights ForwardWeights(int m, int update) const {
    Weights merged;
    const int p = static_cast<int>(stages_.size());
    for (int s = 0; s < p; ++s) {
      const int of = Predicts() ? update * PerUpdate() : m;
      const int version = std::max(0, of - (p - 1 - s)) / PerUpdate();
      const int ahead = update - version;
      const Weights& source =
          Predicts() && ahead > 0 ? predicted_[version][ahead] : versions_[version];
      for (nn::ParameterId id : stages_[s]->ids()) {
        const std::string& name = program_.parameter(id).name;
        merged[name] = source.at(name);
      }
    }
    return merged;
  }

  void Update(bool ends_step) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      for (nn::ParameterId id : stages_[s]->trainable_ids()) {
        stages_[s]->grad(id)->CopyFrom(*whole_.grad(id));
      }
      EXPECT_TRUE(optimizers_[s]->Step(step_, ends_step, -1, stages_[s].get()).ok());
    }
    whole_.ZeroGrads();
    versions_.push_back(Current());
    predicted_.push_back(Predictions());
  }

  // Returns predictions by the number of updates ahead.
  std::vector<Weights> Predictions() {
    std::vector<Weights> predictions(1);
    for (size_t ahead = 1; Predicts() && ahead <= stages_.size(); ++ahead) {
      Weights& weights = predictions.emplace_back();
      for (size_t s = 0; s < stages_.size(); ++s) {
        nn::ParameterSet copy(program_, stages_[s]->layers(), Device::Cpu());
        EXPECT_TRUE(copy.Load(Current()).ok());
        EXPECT_TRUE(optimizers_[s]->Predict(step_, static_cast<int>(ahead), &copy).ok());
        copy.Collect(&weights);
      }
    }
    return predictions;
  }

  const nn::Program& program_;
  InputProvider* const inputs_;
  const Relaxation relaxation_;
  const float scale_;
  nn::ParameterSet whole_;
  std::vector<std::unique_ptr<nn::ParameterSet>> stages_;
  std::vector<std::unique_ptr<StepOptimizer>> optimizers_;
  int64_t step_ = 0;
  std::vector<Weights> versions_;                // of this step, by number of updates
  std::vector<std::vector<Weights>> predicted_;  // the same, by the number of updates ahead
};

// Adds the mean of the workers' changes to the last shared weights, and gives them to all workers.
void Share(Weights* shared, std::vector<std::unique_ptr<Worker>>* workers) {
  std::vector<Weights> weights;
  for (const auto& worker : *workers) weights.push_back(worker->Current());
  for (auto& [name, base] : *shared) {
    for (int64_t k = 0; k < base.num_elements(); ++k) {
      float& value = base.data<float>()[k];
      float sum = weights[0].at(name).data<float>()[k] - value;
      for (size_t w = 1; w < weights.size(); ++w) {
        sum += weights[w].at(name).data<float>()[k] - value;
      }
      value += sum / static_cast<float>(weights.size());
    }
  }
  for (auto& worker : *workers) worker->Set(*shared);
}

testlib::TrainingOutcome Definition(const nn::Program& program, InputProvider* inputs,
                                    const Plan& plan, const AdamWOptions& optimizer,
                                    const Weights& initial) {
  const int num_workers = plan.num_devices() / plan.devices_per_pipeline();
  const int count = plan.num_micro_batches();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int w = 0; w < num_workers; ++w) {
    workers.push_back(std::make_unique<Worker>(program, inputs, plan, optimizer, initial));
  }
  Weights shared;
  for (const auto& [name, tensor] : initial) shared[name] = tensor.Clone();
  const int per_update = workers[0]->PerUpdate();
  const int per_sync = plan.relaxation().updates_per_sync() * per_update;
  testlib::TrainingOutcome outcome;
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<float> losses(plan.global_batch());
    for (auto& worker : workers) worker->BeginStep(step);
    for (int m = 0; m < count; ++m) {
      for (int w = 0; w < num_workers; ++w) {
        const int first = (w * count + m) * kMicroBatchSize;
        const auto part = workers[w]->Run(m, first, count / per_update);
        std::copy(part.begin(), part.end(), losses.begin() + first);
      }
      if (per_sync > 0 && num_workers > 1 && (m + 1) % per_sync == 0) Share(&shared, &workers);
    }
    double sum = 0;
    for (float loss : losses) sum += loss;
    outcome.losses.push_back(sum / static_cast<double>(losses.size()));
  }
  outcome.parameters = workers[0]->Current();
  return outcome;
}

struct Case {
  std::string strategy;
  int num_devices = 0;
  int num_stages = 0;
};

class DefinitionTest : public RelaxedTest, public ::testing::WithParamInterface<Case> {};

TEST_P(DefinitionTest, RuntimeMatchesIt) {
  const Case& c = GetParam();
  const auto plan = MakePlan(c.strategy, c.num_devices, c.num_stages);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto actual = Train(*plan);
  ASSERT_TRUE(actual.ok()) << actual.status();
  const auto expected =
      Definition(model_.backbone().program, &cached_, *plan, optimizer_, parameters_.backbone);
  EXPECT_EQ(testlib::FirstDifference(expected, *actual), "");
  EXPECT_LT(actual->losses.back(), actual->losses.front()) << "it does not learn";
}

// With and without recorded passes. Versions are at several addresses and are not recorded.
TEST_P(DefinitionTest, GpusMatchIt) {
  const auto plan = MakePlan(GetParam().strategy, GetParam().num_devices, GetParam().num_stages);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto expected = Train(*plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  TrainingJob job = Job(&inputs_);
  const auto plain = testlib::TrainOnFakeGpus(job, *plan, kSteps);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_LT(testlib::LargestRelativeDifference(*expected, *plain), testlib::kRoundingDifference);
  job.graphs.enabled = true;
  const auto recorded = testlib::TrainOnFakeGpus(job, *plan, kSteps);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(testlib::FirstDifference(*plain, *recorded), "");
}

INSTANTIATE_TEST_SUITE_P(
    Relaxed, DefinitionTest,
    ::testing::Values(Case{"pipedream_stashing", 2, 2}, Case{"pipedream_stashing", 4, 4},
                      Case{"pipedream_stashing,recompute=full", 4, 4},
                      Case{"pipedream_stashing,update_every=2", 4, 4}, Case{"xpipe", 2, 2},
                      Case{"xpipe", 4, 4}, Case{"xpipe,update_every=1", 4, 4},
                      Case{"hetpipe", 2, 1}, Case{"hetpipe", 4, 2}, Case{"hetpipe", 2, 2}),
    [](const ::testing::TestParamInfo<Case>& info) {
      std::string name = absl::StrCat("strategy_", info.param.strategy, "_on_",
                                      info.param.num_devices, "_stages_", info.param.num_stages);
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

// Presents each step's inputs as steps of one micro-batch.
class OneMicroBatchAStep : public InputProvider {
 public:
  explicit OneMicroBatchAStep(InputProvider* inputs) : inputs_(inputs) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    constexpr int kCount = kGlobalBatch / kMicroBatchSize;
    const int first = static_cast<int>(step % kCount) * kMicroBatchSize;
    return inputs_->Load(component, input, step / kCount,
                         {first + samples.begin, first + samples.end}, device);
  }

 private:
  InputProvider* const inputs_;
};

// With one stage nothing lags behind: it equals one device with steps of one micro-batch each.
TEST_F(RelaxedTest, OneStageIsSynchronousTraining) {
  optimizer_.max_grad_norm = 0;  // no stage of a relaxed plan knows the global norm
  optimizer_.learning_rate.shape = LrSchedule::Shape::kConstant;  // the rate depends on the step
  const auto synchronous = MakePlan("data_parallel", 1, 1, /*global_batch=*/kMicroBatchSize);
  ASSERT_TRUE(synchronous.ok()) << synchronous.status();
  OneMicroBatchAStep inputs(&inputs_);
  const auto expected = Train(*synchronous, &inputs, kSteps * kGlobalBatch / kMicroBatchSize);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto relaxed = MakePlan("pipedream_stashing", 1, 1);
  ASSERT_TRUE(relaxed.ok()) << relaxed.status();
  EXPECT_EQ(relaxed->relaxation().micro_batches_per_update(), 1);
  const auto stashing = Train(*relaxed);
  const auto predicting = Train(*MakePlan("xpipe,update_every=1", 1, 1));
  ASSERT_TRUE(stashing.ok() && predicting.ok()) << stashing.status() << predicting.status();
  EXPECT_EQ(testlib::FirstDifference(*stashing, *predicting), "");
  ASSERT_EQ(expected->parameters.size(), stashing->parameters.size());
  for (const auto& [name, tensor] : expected->parameters) {
    const Tensor& other = stashing->parameters.at(name);
    EXPECT_EQ(std::memcmp(tensor.raw_data(), other.raw_data(), tensor.size_bytes()), 0) << name;
  }
}

// With several stages it lags: each of them computes different results.
TEST_F(RelaxedTest, LagsChangeTheResults) {
  const auto one = Train(*MakePlan("pipedream_stashing", 1, 1));
  const auto stashing = Train(*MakePlan("pipedream_stashing", 4, 4));
  const auto predicting = Train(*MakePlan("xpipe,update_every=1", 4, 4));
  ASSERT_TRUE(one.ok() && stashing.ok() && predicting.ok());
  EXPECT_NE(testlib::FirstDifference(*one, *stashing), "");
  EXPECT_NE(testlib::FirstDifference(*one, *predicting), "");
  EXPECT_NE(testlib::FirstDifference(*stashing, *predicting), "");
}

TEST_F(RelaxedTest, ReplicasWithoutSharingAreRefused) {
  const auto plan = MakePlan("pipedream_stashing", 4, 2);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("drift apart"));
}

}  // namespace
}  // namespace dpipe
